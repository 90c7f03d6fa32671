package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"pandastack/internal/guestproto"
	"pandastack/internal/kit/logkey"
	"pandastack/internal/kit/priority"
	"pandastack/internal/kit/undo"
	"pandastack/internal/memimage"
	"pandastack/internal/vmm"
)

// Descriptors a shim inherits from its server.
const (
	fdListener = 3
	fdMemory   = 4
)

// Files of a run folder.
const (
	specFile   = "spec.json"
	socketName = "sock"
	logFile    = "shim.log"
)

// How long a machine may take to its agent's hello before it counts as hung.
// Booting is tried again, since early clock calibration can fail by chance.
const (
	bootDeadline    = 120 * time.Second
	restoreDeadline = 60 * time.Second
	bootTries       = 3
)

// process is one shim: a machine, and what it tells about it.
type process struct {
	spec   Spec
	driver vmm.Driver
	log    *slog.Logger

	ready chan struct{} // closed when the start succeeded or failed
	ended chan struct{} // closed when there is no machine any more
	close chan struct{} // closed by the close call: the process is to end

	acts sync.Mutex // one act on the machine at a time; it comes before mu
	mu   sync.Mutex
	// Guarded by mu until the start is over, and but for state not changed later.
	state   State
	machine vmm.Machine
	memory  *os.File // of a booted machine, shared with it
	lowest  lowest   // of a restored machine
	guest   *guestproto.Client
	calls   http.Handler // of the guest

	base *memimage.Layer // the latest whole layer, for captures to write less; guarded by acts
}

// Main is the shim process of the run folder dir. It serves until it is told
// to close, even when its machine is gone, so that a server may still ask why.
func Main(ctx context.Context, dir string, driver vmm.Driver, log *slog.Logger) error {
	spec, err := readSpec(dir)
	if err != nil {
		return err
	}
	file := os.NewFile(fdListener, "listener")
	listener, err := net.FileListener(file)
	if err != nil {
		return fmt.Errorf("shim: listener: %w", err)
	}
	_ = file.Close()
	p := &process{
		spec: spec, driver: driver, log: log,
		ready: make(chan struct{}), ended: make(chan struct{}), close: make(chan struct{}),
		state: State{ID: spec.ID, Phase: PhaseStarting, ShimPID: os.Getpid(), Started: time.Now()},
	}
	server := &http.Server{Handler: p.handler(), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	started := make(chan struct{})
	startCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { defer close(started); p.start(startCtx) }()
	select {
	case <-p.close:
	case <-ctx.Done():
	case err = <-served:
	}
	cancel()
	<-started
	p.end()
	shutdown, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer stop()
	return errors.Join(err, server.Shutdown(shutdown))
}

func readSpec(dir string) (Spec, error) {
	var spec Spec
	text, err := os.ReadFile(filepath.Join(dir, specFile))
	if err != nil {
		return spec, fmt.Errorf("shim: %w", err)
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		return spec, fmt.Errorf("shim: %s: %w", specFile, err)
	}
	return spec, nil
}

// start brings the machine up and tells whoever waits.
func (p *process) start(ctx context.Context) {
	defer close(p.ready)
	p.setNice(os.Getpid(), p.spec.Nice)
	tries := 1
	if p.spec.State == "" {
		tries = bootTries
	}
	var err error
	for try := range tries {
		if err = p.tryStart(ctx); err == nil || ctx.Err() != nil {
			break
		}
		p.log.Warn("start failed", logkey.Sandbox, p.spec.ID, "try", try+1, logkey.Error, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.state.Phase, p.state.Failure, p.state.Fault = PhaseEnded, err.Error(), faultOf(err)
		close(p.ended)
		return
	}
	p.state.Phase = PhaseRunning
	go p.watch(p.machine)
	go p.keepTime(p.machine)
}

func (p *process) watch(m vmm.Machine) {
	<-m.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Phase, p.state.Failure = PhaseEnded, m.Err().Error()
	p.log.Info("the machine ended", logkey.Sandbox, p.spec.ID, logkey.Reason, p.state.Failure)
	close(p.ended)
}

// tryStart starts the machine once and leaves nothing when it fails.
func (p *process) tryStart(ctx context.Context) (err error) {
	deadline := bootDeadline
	if p.spec.State != "" {
		deadline = restoreDeadline
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	var u undo.Stack
	var m vmm.Machine
	steps := stepTimer{last: time.Now()}
	defer func() {
		if err != nil {
			err = errors.Join(p.explain(ctx, err, m, &steps), u.Run(context.WithoutCancel(ctx)))
		}
	}()
	spec, inputs, err := p.machineSpec(ctx)
	defer inputs.close()
	if err != nil {
		return err
	}
	if m, err = p.driver.Start(ctx, spec); err != nil {
		return err
	}
	u.Push(func(context.Context) error { err := m.Kill(); <-m.Done(); return err })
	steps.done("vmm")
	if spec.State != nil {
		if err := m.Cont(ctx); err != nil {
			return err
		}
		steps.done("cont")
	}
	guest, transport := connect(m)
	u.Push(func(context.Context) error { transport.CloseIdleConnections(); return nil })
	hello, report, err := greet(ctx, guest, p.spec.Resume, &steps)
	if err != nil {
		return fmt.Errorf("the agent did not answer: %w", err)
	}
	noteResumed(m, p.spec.Resume, report)
	if hello.Lane {
		guest.UseLane(m.Events())
	}
	key, err := p.key(ctx)
	if err != nil {
		return err
	}
	if err := p.keepBase(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Key, p.state.Lowest = key, p.spec.Lowest
	p.machine, p.guest, p.memory = m, guest, inputs.keepMemory()
	p.calls = guestproto.NewHandler(eagerDisk{guest, p.disk()})
	p.state.VMMPID, p.state.Hello, p.state.Report, p.state.Steps = m.PID(), hello, report, steps.steps
	p.state.Resumed = time.Now()
	p.state.Isolated, p.state.Accel = spec.Jail.Enabled, spec.Accelerator
	return nil
}

// connect makes the client of a machine's agent.
func connect(m vmm.Machine) (*guestproto.Client, *http.Transport) {
	transport := guestproto.Transport(guestproto.NewPort(m.Agent()).Dial)
	return guestproto.NewClient(transport, "http://guest"), transport
}

func greet(ctx context.Context, g *guestproto.Client, req guestproto.ResumeRequest, steps *stepTimer) (guestproto.Hello, guestproto.ResumeReport, error) {
	hello, err := g.Hello(ctx)
	if err != nil {
		return hello, guestproto.ResumeReport{}, err
	}
	steps.done("hello")
	report, err := resume(ctx, g, req)
	steps.done("resume")
	return hello, report, err
}

// end kills the machine, if there is one, and returns when it is gone.
func (p *process) end() {
	p.mu.Lock()
	m, memory := p.machine, p.memory
	p.mu.Unlock()
	if m != nil {
		_ = m.Kill()
		<-m.Done()
	}
	if memory != nil {
		_ = memory.Close()
	}
}

// inputs are the files a machine is started with.
type inputs struct {
	files  []*os.File
	memory *os.File // owned here: made for a machine that boots
}

func (in *inputs) close() {
	for _, f := range in.files {
		_ = f.Close()
	}
	if in.memory != nil {
		_ = in.memory.Close()
	}
}

// keepMemory hands the memory over to the caller.
func (in *inputs) keepMemory() *os.File {
	m := in.memory
	in.memory = nil
	return m
}

func (in *inputs) open(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag, 0)
	if err == nil {
		in.files = append(in.files, f)
	}
	return f, err
}

// machineSpec opens what the run folder's spec names.
func (p *process) machineSpec(ctx context.Context) (vmm.Spec, *inputs, error) {
	in := &inputs{}
	s := p.spec
	caps, err := p.driver.Capabilities(ctx)
	if err != nil {
		return vmm.Spec{}, in, err
	}
	spec := vmm.Spec{
		ID: s.ID, Dir: s.Dir, Cmdline: WithTSC(s.Cmdline, s.TSCKHz), CPUs: s.CPUs, MemoryMB: s.MemoryMB,
		Accelerator: caps.Accelerator, CPUModel: caps.CPUModel,
		Jail: vmm.Jail(s.Jail), Nice: s.Nice,
	}
	upperFlag := os.O_RDONLY
	if s.Overlay == "" {
		upperFlag = os.O_RDWR
	}
	for _, f := range []struct {
		path string
		flag int
		to   **os.File
	}{
		{s.Kernel, os.O_RDONLY, &spec.Kernel},
		{s.Initrd, os.O_RDONLY, &spec.Initrd},
		{s.Base, os.O_RDONLY, &spec.Base},
		{s.UpperRaw, upperFlag, &spec.Upper.Raw},
		{s.Overlay, os.O_RDWR, &spec.Upper.Overlay},
		{s.State, os.O_RDONLY, &spec.State},
	} {
		if f.path == "" {
			continue
		}
		if *f.to, err = in.open(f.path, f.flag); err != nil {
			return spec, in, err
		}
	}
	if s.State != "" {
		spec.Memory = os.NewFile(fdMemory, "memory")
		in.files = append(in.files, spec.Memory)
		spec.Fill = p.fill
		p.lowest, err = mapLowest(spec.Memory, int64(s.MemoryMB)<<20)
		return spec, in, err
	}
	if in.memory, err = memimage.New(vmm.MemoryName, int64(s.MemoryMB)<<20); err != nil {
		return spec, in, err
	}
	spec.Memory, spec.MemoryShared = in.memory, true
	return spec, in, nil
}

// setNice is of no consequence where it fails, which it does without privileges.
func (p *process) setNice(pid, nice int) {
	if p.spec.Nice == 0 {
		return
	}
	if err := priority.Set(pid, nice); err != nil {
		p.log.Debug("set priority", logkey.Sandbox, p.spec.ID, logkey.Error, err)
	}
}

// WithTSC tells a guest kernel the frequency of its time stamp counter, so that
// it does not calibrate it, which fails at random under emulation. 0 tells nothing.
func WithTSC(cmdline string, kHz int) string {
	if kHz == 0 {
		return cmdline
	}
	return fmt.Sprintf("%s tsc_early_khz=%d tsc=reliable lpj=4000000", cmdline, kHz)
}

// key is the compatibility key of a snapshot of this machine.
func (p *process) key(ctx context.Context) (string, error) {
	if p.spec.Compat != "" && p.spec.State != "" {
		return p.spec.Compat, nil // what it was restored from has it
	}
	key, err := p.driver.Key(ctx, p.spec.CPUs, p.spec.MemoryMB)
	if err != nil {
		return "", err
	}
	key.TSCKHz = p.spec.TSCKHz
	text, err := json.Marshal(key)
	return string(text), err
}

// stepTimer measures steps that follow each other.
type stepTimer struct {
	last  time.Time
	steps []guestproto.Step
}

// String gives what is done so far.
func (t *stepTimer) String() string {
	if len(t.steps) == 0 {
		return "nothing"
	}
	var text []string
	for _, s := range t.steps {
		text = append(text, fmt.Sprintf("%s %.0f ms", s.Name, s.MS))
	}
	return strings.Join(text, ", ")
}

func (t *stepTimer) done(name string) {
	now := time.Now()
	t.steps = append(t.steps, guestproto.Step{Name: name, MS: float64(now.Sub(t.last).Microseconds()) / 1000})
	t.last = now
}
