package sandbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/kit/clone"
	"pandastack/internal/kit/ids"
	"pandastack/internal/kit/logkey"
	"pandastack/internal/kit/undo"
	"pandastack/internal/panda"
	"pandastack/internal/shim"
)

const (
	defaultTemplate = "code-interpreter"
	// undoTime bounds taking back a start that failed; its caller waits for it.
	undoTime    = 30 * time.Second
	uidFile     = "uid"           // in a run folder: its machine's user id, for the next server
	overlayFile = "overlay.qcow2" // in a run folder: its machine's disk
)

// Why a creation was called off.
var (
	errDeleted = errors.New("the sandbox was deleted while it started")
	errClosing = errors.New("the server is shutting down")
)

// Create starts a sandbox and returns when it answers. A failed or cancelled
// call leaves nothing.
func (s *Service) Create(ctx context.Context, req api.CreateSandbox) (panda.Sandbox, error) {
	if req.Template == "" {
		req.Template = defaultTemplate
	}
	if err := checkCreate(req); err != nil {
		return panda.Sandbox{}, err
	}
	record, err := s.createSomehow(ctx, req)
	if err != nil {
		s.observeNotStarted(ctx, err)
		return panda.Sandbox{}, err
	}
	if keptReady(req) {
		s.arrived(req.Template)
	}
	s.cfg.Observer.SandboxStarted(record.Start)
	s.cfg.Log.Info("sandbox created", "start", record.Start.Kind, logkey.Sandbox, record.ID, logkey.Template, record.Template, logkey.MS, record.Start.TotalMS)
	return record, nil
}

// createSomehow takes a machine that waits ready, or restores one.
func (s *Service) createSomehow(ctx context.Context, req api.CreateSandbox) (panda.Sandbox, error) {
	if r := s.takeReady(ctx, req); r != nil {
		record, err := s.create(ctx, req, r.l, func(ctx context.Context, b *birth) error { return b.take(ctx, r) })
		if !errors.Is(err, errNotReady) {
			return record, err
		}
		s.cfg.Log.Warn("a ready machine was of no use", logkey.Sandbox, r.l.id, logkey.Error, err)
	}
	l := s.newLive(ids.New())
	if req.FromSnapshot != "" {
		return s.createFromSnapshot(ctx, req, l)
	}
	return s.create(ctx, req, l, func(ctx context.Context, b *birth) error { return b.run(ctx, b.fromTemplate) })
}

// keptReady says whether the pool has such machines: no snapshots, no other sizes.
func keptReady(req api.CreateSandbox) bool { return req.FromSnapshot == "" && sizeOf(req) == (Size{}) }

// create makes l the sandbox by run, or undoes what run did.
func (s *Service) create(ctx context.Context, req api.CreateSandbox, l *live, run func(context.Context, *birth) error) (_ panda.Sandbox, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b := s.newBirth(l, req, cancel)
	defer func() {
		if err != nil {
			err = b.undo(ctx, err)
		}
		s.settle(l)
	}()
	if err := run(ctx, b); err != nil {
		return panda.Sandbox{}, err
	}
	return b.record, nil
}

func sizeOf(req api.CreateSandbox) Size { return Size{CPUs: req.CPU, MemoryMB: req.MemoryMB} }

// settle ends the creation: others may now change the sandbox.
func (s *Service) settle(l *live) {
	s.mu.Lock()
	done := l.create.done
	l.create = nil
	s.mu.Unlock()
	close(done)
	s.rearm()
}

// birth is one Create under way.
type birth struct {
	s       *Service
	l       *live
	clock   *clock
	record  panda.Sandbox
	written chan error // of the creating record, which is written during the launch
	undoing undo.Stack
	// stuck is set when the machine could not be ended: then its files, its
	// record and its user id stay, and Delete or the next Start tries again.
	stuck bool
}

// newBirth is a creation on l, which may have a machine already.
func (s *Service) newBirth(l *live, req api.CreateSandbox, cancel context.CancelCauseFunc) *birth {
	l.env = req.Env
	l.create = &creation{cancel: cancel, done: make(chan struct{})}
	l.record = panda.Sandbox{
		ID: l.id, Template: req.Template, Status: panda.Creating,
		CPU: req.CPU, MemoryMB: req.MemoryMB,
		CreatedAt: s.cfg.Now().UTC(), TTL: time.Duration(req.TTLSeconds) * time.Second,
		Persistent: req.Persistent, Metadata: req.Metadata, Env: req.Env,
		IdleTimeout: time.Duration(req.IdleTimeoutSeconds) * time.Second,
		OnTimeout:   cmp.Or(req.OnTimeout, panda.OnTimeoutKill), AutoWake: req.AutoWake == nil || *req.AutoWake,
	}
	return &birth{s: s, l: l, clock: newClock(), record: l.record}
}

// run starts a machine from what find gives.
func (b *birth) run(ctx context.Context, find func(context.Context) (source, error)) error {
	src, err := b.reserve(ctx, find)
	if err != nil {
		return err
	}
	b.write(ctx)
	state, err := b.launch(ctx, src)
	if err != nil {
		return startedFrom(err)
	}
	return b.acknowledge(ctx, state)
}

// reserve takes room on the node and makes sure of what the machine starts from.
func (b *birth) reserve(ctx context.Context, find func(context.Context) (source, error)) (source, error) {
	if err := b.s.withRoom(ctx, func() error { return b.s.admit(b.l) }); err != nil {
		return source{}, err
	}
	b.onUndo(b.forget)
	b.clock.step("admit")
	src, err := find(ctx)
	if err != nil {
		return source{}, err
	}
	if err := b.s.withRoom(ctx, func() error { return b.s.admitMemory(b.l, src.warm.MemoryMB) }); err != nil {
		return source{}, err
	}
	b.record.WarmKey, b.record.CPU, b.record.MemoryMB = src.warm.Key, src.warm.CPUs, src.warm.MemoryMB
	b.clock.step("template")
	return src, nil
}

// fromTemplate bakes the template if it must.
func (b *birth) fromTemplate(ctx context.Context) (source, error) {
	warm, err := b.s.cfg.Templates.Ensure(ctx, b.record.Template, Size{CPUs: b.record.CPU, MemoryMB: b.record.MemoryMB})
	if err != nil {
		return source{}, fmt.Errorf("template %s: %w", b.record.Template, err)
	}
	return templateSource(warm, b.l.id), nil
}

func (b *birth) forget(context.Context) error {
	b.s.vacate(b.l)
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	delete(b.s.live, b.l.id)
	return nil
}

// write stores the creating record beside the launch, whose time hides that of
// the disk. A crash in between leaves a run folder without a record, or a
// creating record, and the next Start removes either.
func (b *birth) write(ctx context.Context) {
	b.s.mu.Lock()
	b.l.record = b.record
	b.s.mu.Unlock()
	record := b.record
	ended := make(chan struct{})
	b.written = make(chan error, 1)
	go func() {
		defer close(ended)
		b.written <- b.s.records.Put(ctx, record)
	}()
	b.onUndo(func(ctx context.Context) error {
		<-ended
		return b.s.records.Delete(ctx, b.l.id)
	})
}

// launch makes the run folder and starts a machine in it.
func (b *birth) launch(ctx context.Context, src source) (shim.State, error) {
	spec, err := b.prepare(ctx, src)
	if err != nil {
		return shim.State{}, err
	}
	b.clock.step("disk")
	return b.start(ctx, spec, src.warm)
}

func (b *birth) prepare(ctx context.Context, src source) (shim.Spec, error) {
	jail, err := b.jail(ctx)
	if err != nil {
		return shim.Spec{}, err
	}
	dir := b.l.dir
	if err := os.Mkdir(dir, 0o700); err != nil {
		return shim.Spec{}, fmt.Errorf("make run folder: %w", err)
	}
	b.onUndo(func(context.Context) error { return os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, uidFile), []byte(strconv.Itoa(b.l.uid)), 0o600); err != nil {
		return shim.Spec{}, fmt.Errorf("make run folder: %w", err)
	}
	if err := clone.File(src.disk, b.l.disk()); err != nil {
		return shim.Spec{}, fmt.Errorf("make disk: %w", err)
	}
	warm := src.warm
	return shim.Spec{
		ID: b.l.id, Dir: dir,
		Kernel: warm.Kernel, Initrd: warm.Initrd, Cmdline: warm.Cmdline,
		CPUs: warm.CPUs, MemoryMB: warm.MemoryMB,
		Base: warm.Base, UpperRaw: warm.UpperRaw, Overlay: b.l.disk(),
		State: src.state, Layers: src.layers, Lowest: src.lowest, Compat: warm.CompatKey,
		Resume: src.resume, Jail: jail,
	}, nil
}

func (b *birth) jail(ctx context.Context) (shim.Jail, error) {
	jail, err := b.s.cfg.Jail(ctx)
	if err != nil {
		return shim.Jail{}, fmt.Errorf("prepare jail: %w", err)
	}
	if !jail.Enabled {
		return jail, nil
	}
	if b.l.uid == 0 {
		return shim.Jail{}, errors.New("the jail needs user ids, and UIDs gives none")
	}
	jail.UID, jail.GID = b.l.uid, b.l.uid
	return jail, nil
}

// identity makes one copy of a snapshot differ from the others. A sandbox's names
// are always the same.
func identity(id string) guestproto.ResumeRequest {
	seed := make([]byte, 64)
	_, _ = rand.Read(seed) // never fails, says crypto/rand
	machineID := sha256.Sum256([]byte("machine-id of " + id))
	return guestproto.ResumeRequest{
		Reseed: true, Seed: seed,
		Hostname:  "sandbox-" + id[:8],
		MachineID: hex.EncodeToString(machineID[:16]),
	}
}

func (b *birth) start(ctx context.Context, spec shim.Spec, warm Warm) (shim.State, error) {
	memory, release, err := b.memory(ctx, spec, warm)
	if err != nil {
		return shim.State{}, fmt.Errorf("load the template's memory: %w", err)
	}
	defer release()
	b.clock.step("memory")
	machine, err := b.s.cfg.Starter.Launch(ctx, spec, memory)
	if err != nil {
		return shim.State{}, b.startFailed(ctx, err)
	}
	b.onUndo(func(ctx context.Context) error {
		err := b.s.endMachine(ctx, b.l, machine)
		b.stuck = err != nil
		b.s.mu.Lock()
		defer b.s.mu.Unlock()
		b.l.machine = nil
		return err
	})
	b.s.mu.Lock()
	b.l.machine = machine
	b.s.mu.Unlock()
	state, err := machine.State(ctx)
	if err != nil {
		return shim.State{}, b.startFailed(ctx, err)
	}
	b.clock.within("launch", state.Steps)
	return state, nil
}

// memory gives what a restored machine maps; nil for one that boots.
func (b *birth) memory(ctx context.Context, spec shim.Spec, warm Warm) (*os.File, func(), error) {
	if spec.State == "" {
		return nil, func() {}, nil
	}
	return b.s.cfg.Memory.Open(ctx, warm)
}

// acknowledge makes the record say running, and keep saying so.
func (b *birth) acknowledge(ctx context.Context, state shim.State) error {
	if err := <-b.written; err != nil {
		return err
	}
	r := &b.record
	r.Status, r.Isolation, r.Accelerator = panda.Running, isolation(state), state.Accel
	r.Start = b.clock.start()
	if err := b.s.records.Update(ctx, *r, panda.Creating); err != nil {
		return err
	}
	b.clock.step("record") // too late for the store, so a restart forgets this step
	r.Start = b.clock.start()
	if err := ctx.Err(); err != nil { // nobody is left to hear of it
		return err
	}
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.l.record = *r
	b.s.watchLocked(b.l)
	return nil
}

func isolation(state shim.State) string {
	switch {
	case state.Accel == "kvm":
		return "hardware-vm"
	case state.Isolated:
		return "emulated-vm+jail"
	}
	return "emulated-vm"
}

func (b *birth) onUndo(release func(context.Context) error) {
	b.undoing.Push(func(ctx context.Context) error {
		if b.stuck {
			return nil
		}
		return release(ctx)
	})
}

// undo takes back what was done and gives the error for the caller.
func (b *birth) undo(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	b.l.end()
	return errors.Join(startError(b.l.id, cause, err), b.undoing.Run(clean))
}
