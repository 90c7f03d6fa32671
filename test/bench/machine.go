package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"pandastack/internal/guestproto"
	"pandastack/internal/kit/durable"
	"pandastack/internal/kit/undo"
	"pandastack/internal/memimage"
	"pandastack/internal/template"
	"pandastack/internal/vmm"
	"pandastack/internal/vmm/qemu"
)

// kernelID is the one kernel of every machine here.
const kernelID = "bench"

// bare restores machines of one template with nothing around them.
type bare struct {
	driver *qemu.Driver
	caps   vmm.Capabilities
	warm   template.WarmManifest
	data   string
	memory *os.File
	dir    string // machines' folders
	count  int
	held   *guest // what samples of a running machine share
}

// guest is one restored machine whose kernel has answered.
type guest struct {
	vmm.Machine
	agent   *guestproto.Client
	release undo.Stack
	cells   int
}

// openBare reads the data directory's record of the template and loads its memory.
func openBare(data, name, accelerator string) (_ *bare, err error) {
	b := &bare{driver: &qemu.Driver{Accelerator: accelerator}, data: data}
	if b.caps, err = b.driver.Capabilities(context.Background()); err != nil {
		return nil, err
	}
	var record struct{ Warm map[string]string }
	if err := readJSON(filepath.Join(data, "templates", name+".json"), &record); err != nil {
		return nil, fmt.Errorf("template %s is not baked: %w", name, err)
	}
	for _, key := range record.Warm {
		if err := readJSON(filepath.Join(data, "warm", key, "manifest.json"), &b.warm); err != nil {
			return nil, err
		}
	}
	if b.memory, err = memimage.Load(vmm.MemoryName, b.file("memory.img")); err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp("", "pandastack-bench-"); err != nil {
		return nil, errors.Join(err, b.memory.Close())
	}
	return b, nil
}

func readJSON(path string, v any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

func (b *bare) file(name string) string { return filepath.Join(b.data, "warm", b.warm.Key, name) }

func (b *bare) close() error {
	return errors.Join(b.release(), b.memory.Close(), os.RemoveAll(b.dir))
}

// spec opens the files of a new machine. The clock does not run yet: a disk's
// overlay is one copy of 192 KiB, and what is measured is the mechanism.
func (b *bare) spec(release *undo.Stack) (spec vmm.Spec, err error) {
	b.count++
	spec = vmm.Spec{
		ID: fmt.Sprintf("bench-%d-%d", os.Getpid(), b.count), Dir: filepath.Join(b.dir, fmt.Sprint(b.count)),
		Cmdline: b.warm.Cmdline, CPUs: b.warm.Variant.CPU, MemoryMB: b.warm.Variant.MemoryMB,
		Accelerator: b.caps.Accelerator, CPUModel: b.caps.CPUModel, Memory: b.memory,
	}
	release.Push(func(context.Context) error { return os.RemoveAll(spec.Dir) })
	overlay := filepath.Join(spec.Dir, "overlay.qcow2")
	if err := os.Mkdir(spec.Dir, 0o700); err != nil {
		return spec, err
	}
	seed, err := os.ReadFile(b.file("upper.qcow2"))
	if err == nil {
		err = durable.WriteFile(overlay, seed, 0o600)
	}
	if err != nil {
		return spec, err
	}
	image := filepath.Join(b.data, "images", b.warm.Image)
	for _, f := range []struct {
		to   **os.File
		path string
		flag int
	}{
		{&spec.Kernel, filepath.Join(image, "vmlinux"), os.O_RDONLY},
		{&spec.Base, filepath.Join(image, "base.ext4"), os.O_RDONLY},
		{&spec.Initrd, filepath.Join(b.data, "boot", b.warm.Initrd, "initrd"), os.O_RDONLY},
		{&spec.Upper.Raw, b.file("upper.raw"), os.O_RDONLY},
		{&spec.Upper.Overlay, overlay, os.O_RDWR},
		{&spec.State, b.file("state"), os.O_RDONLY},
	} {
		if *f.to, err = os.OpenFile(f.path, f.flag, 0); err != nil {
			return spec, err
		}
		release.Push(func(context.Context) error { return (*f.to).Close() })
	}
	return spec, nil
}

// steps is a clock that measures what follows each other: wall time, and
// processor time of the VMM, which other load on the host disturbs less.
type steps struct {
	last time.Time
	pid  int // of the VMM; 0 while there is none
	cpu  time.Duration
	ms   map[string]float64
}

func newSteps() *steps {
	return &steps{last: time.Now(), ms: map[string]float64{}}
}

func (s *steps) done(name string) {
	now := time.Now()
	s.ms[name] = ms(now.Sub(s.last))
	if s.pid != 0 {
		cpu := cpuTime(s.pid)
		s.ms["cpu."+name] = ms(cpu - s.cpu)
		s.cpu = cpu
	}
	s.last = time.Now() // looking is not counted
}

func (s *steps) sample() sample {
	var sum float64
	for name, value := range s.ms {
		if !strings.Contains(name, ".") {
			sum += value
		}
	}
	return sample{MS: sum, Steps: s.ms}
}

// cpuTime is what a process's threads have used, to the nanosecond.
func cpuTime(pid int) (total time.Duration) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, file := range files {
		var ran time.Duration
		if text, err := os.ReadFile(file); err == nil {
			_, _ = fmt.Sscan(string(text), &ran)
			total += ran
		}
	}
	return total
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// start restores a machine up to the answer of its first cell.
func (b *bare) start(ctx context.Context) (_ *guest, clock *steps, err error) {
	spec, release, err := b.prepared()
	if err != nil {
		return nil, nil, err
	}
	return b.startSpec(ctx, spec, release)
}

// prepared opens the files of a new machine, or leaves nothing.
func (b *bare) prepared() (vmm.Spec, undo.Stack, error) {
	var release undo.Stack
	spec, err := b.spec(&release)
	if err != nil {
		err = errors.Join(err, release.Run(context.Background()))
	}
	return spec, release, err
}

func (b *bare) startSpec(ctx context.Context, spec vmm.Spec, release undo.Stack) (_ *guest, clock *steps, err error) {
	g := &guest{release: release}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.epitaph(), g.release.Run(context.WithoutCancel(ctx)))
		}
	}()
	clock = newSteps()
	if g.Machine, err = b.driver.Start(ctx, spec); err != nil {
		return nil, nil, err
	}
	g.release.Push(func(context.Context) error { err := g.Kill(); <-g.Done(); return err })
	clock.pid = g.PID()
	clock.done("vmm")
	if err := g.Cont(ctx); err != nil {
		return nil, nil, err
	}
	clock.done("cont")
	return g, clock, g.greet(ctx, clock)
}

// epitaph says how the VMM ended, where that is why a start failed.
func (g *guest) epitaph() error {
	if g.Machine == nil {
		return nil
	}
	select {
	case <-g.Done():
		return g.Err()
	case <-time.After(time.Second):
		return errors.New("the VMM still runs")
	}
}

// greet does what a shim and a first cell do with a machine that goes on.
func (g *guest) greet(ctx context.Context, clock *steps) error {
	transport := guestproto.Transport(guestproto.NewPort(g.Agent()).Dial)
	g.release.Push(func(context.Context) error { transport.CloseIdleConnections(); return nil })
	g.agent = guestproto.NewClient(transport, "http://guest")
	hello, err := g.agent.Hello(ctx)
	if err != nil {
		return fmt.Errorf("hello: %w", err)
	}
	if hello.Lane {
		g.agent.UseLane(g.Events())
	}
	clock.done("hello")
	report, err := g.agent.Resume(ctx, resumeRequest())
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	clock.done("resume")
	for _, s := range report.Steps {
		clock.ms["guest."+s.Name] = s.MS
	}
	if _, err := g.agent.CreateKernel(ctx, guestproto.KernelRequest{ID: kernelID, Language: "python"}); err != nil {
		return fmt.Errorf("kernel: %w", err)
	}
	clock.done("kernel")
	if _, err := cellOne(ctx, g); err != nil {
		return err
	}
	clock.done("cell")
	return nil
}

func resumeRequest() guestproto.ResumeRequest {
	random := make([]byte, 80)
	_, _ = rand.Read(random) // never fails, says crypto/rand
	return guestproto.ResumeRequest{
		WallClockNS: time.Now().UnixNano(), Reseed: true, Seed: random[:64],
		Hostname: "sandbox-bench", MachineID: hex.EncodeToString(random[64:]),
	}
}

// restore is one whole life; its end is not counted.
func (b *bare) restore(ctx context.Context) (sample, error) {
	g, clock, err := b.start(ctx)
	if err != nil {
		return sample{}, err
	}
	return clock.sample(), g.release.Run(ctx)
}

// restores are n at once, each to its first cell; their ends are not counted.
func (b *bare) restores(ctx context.Context, n int) (sample, error) {
	began := time.Now()
	guests, errs := make([]*guest, n), make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		spec, release, err := b.prepared()
		if err != nil {
			return sample{}, err
		}
		group.Go(func() { guests[i], _, errs[i] = b.startSpec(ctx, spec, release) })
	}
	group.Wait()
	took := ms(time.Since(began))
	for _, g := range guests {
		if g != nil {
			errs = append(errs, g.release.Run(ctx))
		}
	}
	return sample{MS: took}, errors.Join(errs...)
}

// running does something with the machine that is held for that.
func (b *bare) running(ctx context.Context, do work) (sample, error) {
	if b.held == nil {
		g, _, err := b.start(ctx)
		if err != nil {
			return sample{}, err
		}
		b.held = g
	}
	return do(ctx, b.held)
}

// release ends the held machine, if there is one.
func (b *bare) release() error {
	if b.held == nil {
		return nil
	}
	g := b.held
	b.held = nil
	return g.release.Run(context.Background())
}
