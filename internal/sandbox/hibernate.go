package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/kit/failpoint"
	"pandastack/internal/kit/ids"
	"pandastack/internal/kit/logkey"
	"pandastack/internal/panda"
	"pandastack/internal/shim"
)

// Pause lets a sandbox's machine stand still, in memory. It is fine on one that does.
func (s *Service) Pause(ctx context.Context, id string) (panda.Sandbox, error) {
	err := s.operate(ctx, id, callsWait, func(ctx context.Context, l *live) error {
		switch record := s.status(l); record.Status {
		case panda.Paused:
			return nil
		case panda.Running:
		default:
			return cannot(record, "paused")
		}
		if err := l.machine.Stop(ctx); err != nil {
			return err
		}
		if err := s.turn(ctx, l, panda.Paused, "", panda.Running); err != nil {
			_, again := l.machine.Cont(ctx, guestproto.ResumeRequest{})
			return errors.Join(err, s.turn(ctx, l, panda.Running, "", panda.Paused), again)
		}
		return nil
	})
	return s.after(ctx, id, err)
}

// after gives the sandbox as it is when an operation is over.
func (s *Service) after(ctx context.Context, id string, err error) (panda.Sandbox, error) {
	if err != nil {
		return panda.Sandbox{}, err
	}
	return s.Get(ctx, id)
}

// Hibernate writes all of a sandbox to disk and ends its machine. When it returns
// without an error the save outlives anything but the disk.
func (s *Service) Hibernate(ctx context.Context, id string) (panda.Sandbox, error) {
	err := s.operate(ctx, id, callsWait, s.hibernate)
	return s.after(ctx, id, err)
}

func (s *Service) hibernate(ctx context.Context, l *live) error {
	record := s.status(l)
	switch record.Status {
	case panda.Hibernated:
		return nil
	case panda.Running, panda.Paused:
	default:
		return cannot(record, "hibernated")
	}
	id := ids.New()
	got, err := s.capture(ctx, l, id, true, false)
	if err != nil {
		return err
	}
	err = s.change(ctx, l, func(next *panda.Sandbox) { next.Status, next.Saved = panda.Hibernated, id }, record.Status)
	if err != nil { // the machine stands still, with everything in it
		if record.Status == panda.Running {
			_, again := l.machine.Cont(ctx, guestproto.ResumeRequest{})
			err = errors.Join(err, again)
		}
		return errors.Join(err, os.RemoveAll(s.saveDir(id)))
	}
	s.mu.Lock()
	l.end()
	s.mu.Unlock()
	if err := s.dismiss(ctx, l); err != nil {
		s.cfg.Log.Error("end the machine of a hibernated sandbox", logkey.Sandbox, l.id, logkey.Error, err)
	}
	s.cfg.Log.Info("sandbox hibernated", logkey.Sandbox, l.id, "written_bytes", got.WrittenBytes, logkey.MS, got.TotalMS)
	return nil
}

// dismiss ends a sandbox's machine, removes its run folder and gives back its room.
func (s *Service) dismiss(ctx context.Context, l *live) error {
	if err := s.endMachine(ctx, l, l.machine); err != nil {
		return err // its user id is not safe to give away
	}
	s.mu.Lock()
	l.machine = nil
	s.mu.Unlock()
	s.vacate(l)
	failpoint.Hit("remove run folder")
	return os.RemoveAll(l.dir)
}

// Wake makes a sandbox run again: a paused one at once, a hibernated one from its
// save. from "disk" boots it from its files, without what was in memory.
func (s *Service) Wake(ctx context.Context, id, from string) (panda.Sandbox, error) {
	err := s.operate(ctx, id, callsWait, func(ctx context.Context, l *live) error {
		switch record := s.status(l); record.Status {
		case panda.Running:
			return nil
		case panda.Paused:
			return s.unpause(ctx, l)
		case panda.Hibernated, panda.Failed:
			return s.wake(ctx, l, record, from == wakeFromDisk || record.Status == panda.Failed)
		default:
			return cannot(record, "woken")
		}
	})
	return s.after(ctx, id, err)
}

const wakeFromDisk = "disk"

func (s *Service) unpause(ctx context.Context, l *live) error {
	if _, err := l.machine.Cont(ctx, guestproto.ResumeRequest{}); err != nil {
		return err
	}
	return s.turn(ctx, l, panda.Running, "", panda.Paused)
}

// wake starts a machine for a sandbox that has none. The save stays until the
// record says that the sandbox runs.
func (s *Service) wake(ctx context.Context, l *live, record panda.Sandbox, boot bool) (err error) {
	b := &birth{s: s, l: l, clock: newClock(), record: record}
	defer func() {
		if err != nil {
			err = startedFrom(b.undo(ctx, err))
		}
	}()
	if record.Saved == "" {
		if record.Saved, err = s.saveDisk(ctx, l); err != nil {
			return err
		}
		b.record = s.status(l)
	}
	src, err := s.wakeSource(ctx, record, boot)
	if err != nil {
		return err
	}
	if err := s.withRoom(ctx, func() error { return s.admitAgain(l, src.warm.MemoryMB) }); err != nil {
		return err
	}
	b.onUndo(func(context.Context) error { s.vacate(l); return nil })
	b.clock.step("admit")
	if err := os.RemoveAll(l.dir); err != nil { // of the machine that ended
		return err
	}
	state, err := b.launch(ctx, src)
	if err != nil {
		return err
	}
	return b.awake(ctx, state, boot)
}

// wakeSource is what a sandbox goes on from. A woken one exists once and needs no
// new identity.
func (s *Service) wakeSource(ctx context.Context, record panda.Sandbox, boot bool) (source, error) {
	if boot {
		return s.savedDisk(ctx, record)
	}
	return s.savedSource(ctx, record.Saved, guestproto.ResumeRequest{})
}

// awake makes the record say running, and frees the save.
func (b *birth) awake(ctx context.Context, state shim.State, booted bool) error {
	saved, was := b.record.Saved, b.record.Status
	start := b.clock.start()
	if booted {
		start.Kind, start.Lost = "booted", "memory"
	}
	err := b.s.change(ctx, b.l, func(r *panda.Sandbox) {
		r.Status, r.Saved, r.Failure, r.Start = panda.Running, "", "", start
		r.Isolation, r.Accelerator = isolation(state), state.Accel
		if r.TTL != 0 && r.OnTimeout == panda.OnTimeoutHibernate {
			r.TTLFrom = b.s.cfg.Now().UTC() // the time to live that made it hibernate
		}
	}, was)
	if err != nil {
		return err
	}
	b.s.mu.Lock()
	b.l.ended, b.l.end = context.WithCancel(context.Background())
	b.l.use.touch()
	b.s.watchLocked(b.l)
	b.s.mu.Unlock()
	b.s.rearm()
	failpoint.Hit("remove save")
	if err := os.RemoveAll(b.s.saveDir(saved)); err != nil {
		b.s.cfg.Log.Warn("remove a save that is used up", logkey.Sandbox, b.l.id, logkey.Error, err)
	}
	b.s.cfg.Log.Info("sandbox woken", "start", start.Kind, logkey.Sandbox, b.l.id, logkey.MS, start.TotalMS)
	return nil
}

// saveDisk makes a save of what is left of a failed sandbox: its disk.
func (s *Service) saveDisk(ctx context.Context, l *live) (string, error) {
	if err := s.endMachine(ctx, l, l.machine); err != nil {
		return "", err
	}
	record := s.status(l)
	id := ids.New()
	dir := s.saveDir(id)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", diskFull(err)
	}
	err := os.Link(l.disk(), s.saveDir(id)+"/"+shim.DiskFile)
	if err == nil {
		err = writeSave(dir, save{WarmKey: record.WarmKey, CPUs: record.CPU, MemoryMB: record.MemoryMB})
	}
	if err == nil {
		err = s.change(ctx, l, func(next *panda.Sandbox) { next.Saved = id }, panda.Failed)
	}
	if err != nil {
		lost := failed(fmt.Sprintf("%s; its disk cannot be used", record.Failure))
		lost.Cause = errors.Join(err, os.RemoveAll(dir))
		return "", lost
	}
	return id, nil
}

// change puts a new record in the store and then here, if its status is one of from.
// Unlike turn it changes nothing when the store fails.
func (s *Service) change(ctx context.Context, l *live, f func(*panda.Sandbox), from panda.Status) error {
	l.transit.Lock()
	defer l.transit.Unlock()
	next := s.status(l)
	if next.Status != from {
		return cannot(next, "changed")
	}
	f(&next)
	if err := s.records.Update(ctx, next, from); err != nil {
		return fmt.Errorf("change sandbox %s: %w", l.id, err)
	}
	s.mu.Lock()
	l.record = next
	s.mu.Unlock()
	return nil
}

// hibernated is what a call on a sandbox meets that does not wake by itself.
func hibernated() error {
	return &panda.Error{Code: api.CodeSandboxHibernated, Message: "the sandbox is hibernated"}
}
