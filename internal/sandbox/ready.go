package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"

	"pandastack/internal/guestproto"
	"pandastack/internal/kit/ids"
	"pandastack/internal/kit/logkey"
	"pandastack/internal/panda"
	"pandastack/internal/shim"
)

// readyNice keeps the making of ready machines from slowing down what runs.
const readyNice = 10

// ready is a machine that was restored, has answered and run a cell, so that no
// code path is new to it, and was then stopped. Its id becomes the sandbox's.
type ready struct {
	l     *live
	warm  Warm
	state shim.State
}

func (r *ready) dead() bool {
	select {
	case <-r.l.machine.Done():
		return true
	default:
		return false
	}
}

// errNotReady says that a ready machine turned out not to be.
var errNotReady = errors.New("the ready machine did not go on")

// makeReady makes a machine. A failed call leaves nothing.
func (s *Service) makeReady(ctx context.Context, template string) (_ *ready, err error) {
	warm, err := s.cfg.Templates.Ensure(ctx, template, Size{})
	if err != nil {
		return nil, err
	}
	l := s.newLive(ids.New())
	b := &birth{s: s, l: l, clock: newClock(), record: panda.Sandbox{ID: l.id, Template: template}}
	defer func() {
		if err != nil {
			err = b.undo(ctx, err)
		}
	}()
	if err := s.takeUID(l); err != nil {
		return nil, err
	}
	b.onUndo(func(context.Context) error { s.vacate(l); return nil })
	spec, err := b.prepare(ctx, templateSource(warm, l.id))
	if err != nil {
		return nil, err
	}
	spec.Nice = readyNice
	state, err := b.start(ctx, spec, warm)
	if err != nil {
		return nil, err
	}
	if err := rehearse(ctx, l.machine, l.id); err != nil {
		return nil, fmt.Errorf("rehearse: %w", err)
	}
	if err := l.machine.Stop(ctx); err != nil {
		return nil, err
	}
	return &ready{l: l, warm: warm, state: state}, nil
}

// rehearse does in a machine what a sandbox's first calls will do, in the kernel that
// waits for them, and which then knows nothing of it. A template without Python has none. At
// the end the machine is told once more all that makes it this one, from which on it also
// counts what it uses; whoever takes it only tells it the time, for nothing of it exists
// twice.
func rehearse(ctx context.Context, machine shim.Machine, id string) error {
	const kernel = "rehearsal"
	guest := machine.Guest()
	var refusal *guestproto.Error
	_, err := guest.CreateKernel(ctx, guestproto.KernelRequest{ID: kernel, Language: "python"})
	if errors.As(err, &refusal) && refusal.Code == guestproto.CodeUnsupported {
		return nil
	}
	if err != nil {
		return err
	}
	for range 2 {
		err = guest.Execute(ctx, kernel, guestproto.ExecuteRequest{ID: ids.New(), Code: "1 + 1", Forget: true}, nil, func(guestproto.Event) error { return nil })
		if err != nil {
			return err
		}
	}
	if err := guest.ReleaseKernel(ctx, kernel); err != nil {
		return err
	}
	// The second resume of a machine is several times as fast as its first.
	if err := machine.Stop(ctx); err != nil {
		return err
	}
	if _, err = machine.Cont(ctx, identity(id)); err != nil {
		return err
	}
	return guest.Warm(ctx, guestproto.WarmRequest{}) // it comes after the kernel's new seed
}

func (s *Service) takeUID(l *live) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	uid, ok := s.takeUIDLocked()
	if !ok {
		return s.fullLocked("all user ids for virtual machines are in use")
	}
	l.uid = uid
	return nil
}

// discardReady ends a machine that nobody took.
func (s *Service) discardReady(ctx context.Context, r *ready) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
	defer cancel()
	r.l.end()
	if err := s.endMachine(ctx, r.l, r.l.machine); err != nil {
		s.cfg.Log.Error("end a ready machine", logkey.Sandbox, r.l.id, logkey.Error, err)
		return err // the next Start finds its folder
	}
	s.vacate(r.l)
	return os.RemoveAll(r.l.dir)
}

// take turns the ready machine into the sandbox. The record is written beside
// the machine's going on, and says running at once: a server that dies in between
// finds a machine to adopt, or a failed sandbox that nobody was told of.
func (b *birth) take(ctx context.Context, r *ready) error {
	b.onUndo(b.forget)
	b.onUndo(func(context.Context) error { return os.RemoveAll(b.l.dir) })
	b.onUndo(func(ctx context.Context) error {
		err := b.s.endMachine(ctx, b.l, b.l.machine)
		b.stuck = err != nil
		return err
	})
	if err := b.s.withRoom(ctx, func() error { return b.s.admitReady(b.l, r.warm.MemoryMB) }); err != nil {
		return err
	}
	rec := &b.record
	rec.WarmKey, rec.CPU, rec.MemoryMB = r.warm.Key, r.warm.CPUs, r.warm.MemoryMB
	rec.Isolation, rec.Accelerator, rec.Status = isolation(r.state), r.state.Accel, panda.Running
	b.clock.step("claim")
	b.write(ctx)
	report, err := b.l.machine.Cont(ctx, guestproto.ResumeRequest{})
	if err != nil {
		return errors.Join(errNotReady, err)
	}
	b.clock.within("cont", report.Steps)
	if err := <-b.written; err != nil {
		return err
	}
	b.clock.step("record")
	rec.Start = b.clock.start()
	rec.Start.Kind = "ready"
	if err := ctx.Err(); err != nil { // nobody is left to hear of it
		return err
	}
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.l.record = *rec
	b.s.watchLocked(b.l)
	return nil
}
