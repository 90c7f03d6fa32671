package template

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"pandastack/internal/guestproto"
	"pandastack/internal/kit/durable"
	"pandastack/internal/kit/sparse"
	"pandastack/internal/shim"
)

// bakeStepCount is how many steps bake reports.
const bakeStepCount = 5

// bake is one warm snapshot being made.
type bake struct {
	*tracker
	b      *Builder
	src    *Source
	img    *Image
	initrd string // path
	dir    string // private: run/ of the machine, out/ to be published
	m      WarmManifest
	log    io.Writer
}

func (k *bake) out() string     { return filepath.Join(k.dir, "out") }
func (k *bake) run() string     { return filepath.Join(k.dir, "run") }
func (k *bake) logPath() string { return filepath.Join(k.dir, "bake.log") }

// bakeWarm boots the image, warms it and saves it. The caller holds the
// template's lock. On error nothing is left but the logs in the private folder, which
// the next attempt removes.
func (b *Builder) bakeWarm(ctx context.Context, src *Source, img *Image, initrd string, m WarmManifest, t *tracker) (_ *Warm, err error) {
	k := &bake{tracker: t, b: b, src: src, img: img, initrd: initrd, m: m, dir: b.layout.warmBuild(m.Inputs)}
	if err := b.dropBake(ctx, k.dir); err != nil {
		return nil, err
	}
	for _, dir := range []string{k.out(), k.run()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	file, err := os.Create(k.logPath())
	if err != nil {
		return nil, err
	}
	defer file.Close()
	k.log = k.stream(file)
	if err := k.steps(ctx); err != nil {
		return nil, k.failed(err)
	}
	return k.publish()
}

// dropBake ends and removes what a killed bake left: its machine outlives it.
func (b *Builder) dropBake(ctx context.Context, dir string) error {
	run := filepath.Join(dir, "run")
	if _, err := os.Stat(run); err == nil {
		if err := b.cfg.Starter.Reap(ctx, run); err != nil {
			return fmt.Errorf("end the machine of an earlier bake: %w", err)
		}
	}
	return os.RemoveAll(dir)
}

func (k *bake) steps(ctx context.Context) (err error) {
	k.begin("disk")
	if err := makeUpper(ctx, k.log, k.out(), k.src.Recipe.DiskMB); err != nil {
		return err
	}
	k.finish(k.elapsed(), false)

	k.begin("boot")
	machine, err := k.b.cfg.Starter.Launch(ctx, k.spec(), nil)
	if err != nil {
		return err
	}
	// The machine has to end even if the caller was cancelled.
	defer func() { err = errors.Join(err, machine.Close(context.WithoutCancel(ctx))) }()
	hello, err := machine.Guest().Hello(ctx)
	if err != nil {
		return err
	}
	k.m.Agent, k.m.Protocol = hello.Agent, hello.Version
	k.finish(k.elapsed(), false)

	k.begin("warm")
	if err := k.warm(ctx, machine.Guest()); err != nil {
		return err
	}
	k.finish(k.elapsed(), false)

	k.begin("save")
	if err := k.save(ctx, machine); err != nil {
		return err
	}
	k.finish(k.elapsed(), false)
	return nil
}

func (k *bake) spec() shim.Spec {
	cfg := k.b.cfg
	return shim.Spec{
		ID: "bake-" + short(k.m.Inputs), Dir: k.run(),
		Kernel: k.img.Kernel(), Initrd: k.initrd, Cmdline: cfg.Cmdline,
		CPUs: k.m.Variant.CPU, MemoryMB: k.m.Variant.MemoryMB,
		Base: k.img.Base(), UpperRaw: upperRaw(k.out()),
		Accelerator: cfg.Accelerator, Jail: cfg.Jail,
	}
}

// warm runs the recipe's start command, waits until it is ready and warms the
// Python kernel.
func (k *bake) warm(ctx context.Context, g guestproto.Guest) error {
	if err := k.serve(ctx, g); err != nil {
		return err
	}
	r := k.src.Recipe
	if r.Python == nil {
		return nil
	}
	if err := g.Warm(ctx, guestproto.WarmRequest{Imports: r.Warm.Imports, Cells: r.Warm.Cells}); err != nil {
		return fmt.Errorf("warm the Python kernel: %w", err)
	}
	return nil
}

// save stops the machine and writes what it is to out.
func (k *bake) save(ctx context.Context, machine shim.Machine) error {
	if err := machine.Guest().Quiesce(ctx); err != nil {
		return fmt.Errorf("quiesce: %w", err)
	}
	memory, state := filepath.Join(k.out(), "memory.img"), filepath.Join(k.out(), "state")
	saved, err := machine.Save(ctx, memory, state)
	if err != nil {
		return err
	}
	k.m.Compat = saved.Key
	return nil
}

// publish completes the snapshot's folder and moves it to its place.
func (k *bake) publish() (*Warm, error) {
	k.begin("publish")
	for name, size := range map[string]*int64{
		"memory.img": &k.m.MemoryBytes, "state": &k.m.StateBytes, "upper.raw": &k.m.UpperBytes,
	} {
		path := filepath.Join(k.out(), name)
		if err := sparse.Punch(path); err != nil {
			return nil, err
		}
		n, err := allocated(path)
		if err != nil {
			return nil, err
		}
		*size = n
	}
	k.m.Format, k.m.Key = formatVersion, warmKey(k.m.Inputs, k.m.Compat)
	k.m.Steps, k.m.Created = k.times, time.Now().UTC().Truncate(time.Second)
	if err := writeJSON(filepath.Join(k.out(), "manifest.json"), k.m); err != nil {
		return nil, err
	}
	dir := k.b.layout.warm(k.m.Key)
	if _, err := readWarmManifest(dir); err != nil {
		if err := durable.Rename(k.out(), dir); err != nil {
			return nil, fmt.Errorf("publish warm snapshot: %w", err)
		}
	}
	if err := os.RemoveAll(k.dir); err != nil {
		return nil, err
	}
	k.finish(k.elapsed(), false)
	return k.b.openWarm(k.m.Key)
}

// failed names the step and keeps the guest's last words, but not its disk.
func (k *bake) failed(err error) error {
	if console := tail(filepath.Join(k.run(), "console.log"), 12); console != "" {
		fmt.Fprintf(k.log, "console:\n%s\n", console)
	}
	err = errors.Join(err, os.RemoveAll(k.out()))
	return &StepError{Template: k.src.Recipe.Name, Step: k.at.Step, Log: k.logPath(), Tail: tail(k.logPath(), 20), Err: err}
}

func allocated(path string) (int64, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return 0, fmt.Errorf("stat %s: %w", path, err)
	}
	return st.Blocks * 512, nil
}
