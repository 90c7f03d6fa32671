package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"pandastack/internal/kit/failpoint"
	"pandastack/internal/kit/logkey"
	"pandastack/internal/panda"
	"pandastack/internal/shim"
)

// removeTime bounds the end of one machine and of its files.
const removeTime = time.Minute

// Delete ends a sandbox's machine and removes its files and its record; it
// returns when all are gone. Of several calls at once one does it and all wait
// for that. It goes on when ctx ends. A failed one can be tried again.
func (s *Service) Delete(ctx context.Context, id string) error {
	stopped := false
	for {
		d, c, err := s.beginDelete(id)
		switch {
		case err != nil && stopped && panda.CodeOf(err) == panda.CodeOf(notFound(id)):
			return nil // its creation has undone itself at our word
		case err != nil:
			return err
		case d != nil:
			if err := wait(ctx, d.done); err != nil {
				return err
			}
			return d.err
		}
		stopped = true
		c.cancel(errDeleted)
		if err := wait(ctx, c.done); err != nil {
			return err
		}
	}
}

// beginDelete gives the deletion to wait for, or the creation to end first.
func (s *Service) beginDelete(id string) (*deletion, *creation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.live[id]
	if l == nil {
		return nil, nil, notFound(id)
	}
	if l.create != nil {
		return nil, l.create, nil
	}
	if l.deletion == nil {
		d := &deletion{done: make(chan struct{})}
		if !s.spawnLocked(func() { s.remove(l, d) }) {
			return nil, nil, fmt.Errorf("delete sandbox %s: %w", id, errClosing)
		}
		l.deletion = d
	}
	return l.deletion, nil, nil
}

func (s *Service) remove(l *live, d *deletion) {
	l.turn <- struct{}{} // an operation under way ends in its own time
	d.err = s.removeAll(l)
	<-l.turn
	if d.err == nil {
		s.vacate(l)
	}
	s.mu.Lock()
	if d.err == nil {
		delete(s.live, l.id)
	} else {
		l.deletion = nil
	}
	s.mu.Unlock()
	close(d.done)
}

func (s *Service) removeAll(l *live) error {
	ctx, cancel := context.WithTimeout(context.Background(), removeTime)
	defer cancel()
	if err := s.turn(ctx, l, panda.Stopping, ""); err != nil && !errors.Is(err, errStatus) {
		// Not in the way: a full disk must not keep sandboxes from being deleted.
		s.cfg.Log.Warn("record that a sandbox stops", logkey.Sandbox, l.id, logkey.Error, err)
	}
	s.mu.Lock()
	l.end()
	machine, saved := l.machine, l.record.Saved
	s.mu.Unlock()
	if err := s.endMachine(ctx, l, machine); err != nil {
		return fmt.Errorf("end the machine of sandbox %s: %w", l.id, err)
	}
	failpoint.Hit("remove run folder")
	if err := os.RemoveAll(l.dir); err != nil {
		return fmt.Errorf("remove run folder: %w", err)
	}
	if saved != "" {
		failpoint.Hit("remove save")
		if err := os.RemoveAll(s.saveDir(saved)); err != nil {
			return fmt.Errorf("remove what it was saved in: %w", err)
		}
	}
	return s.records.Delete(ctx, l.id)
}

// endMachine returns when no process of the run folder is left. machine may be nil.
func (s *Service) endMachine(ctx context.Context, l *live, machine shim.Machine) error {
	var err error
	if machine != nil {
		if err = machine.Close(ctx); err == nil {
			return nil
		}
	}
	if reaped := s.cfg.Starter.Reap(ctx, l.dir); reaped != nil {
		return errors.Join(err, reaped)
	}
	return nil
}

// errStatus is a change of status that does not apply any more.
var errStatus = errors.New("no such change of status")

// turn changes a sandbox's status, in the store and then here, if it is one of
// from (any, if none are given) and not to yet; otherwise it gives errStatus. When the store
// fails it is changed here all the same: the machine is gone or soon will be,
// and the next Start finds out by itself.
func (s *Service) turn(ctx context.Context, l *live, to panda.Status, failure string, from ...panda.Status) error {
	l.transit.Lock()
	defer l.transit.Unlock()
	s.mu.Lock()
	next := l.record
	s.mu.Unlock()
	old := next.Status
	if old == to || len(from) > 0 && !slices.Contains(from, old) {
		return fmt.Errorf("%w: sandbox %s from %s to %s", errStatus, l.id, old, to)
	}
	next.Status = to
	if failure != "" {
		next.Failure = failure
	}
	err := s.records.Update(ctx, next, old)
	s.mu.Lock()
	l.record = next
	s.mu.Unlock()
	return err
}

// watch waits for the machine to end and makes the sandbox failed if nobody
// had asked for that.
func (s *Service) watch(l *live, machine shim.Machine, end context.CancelFunc) {
	select {
	case <-s.closing:
		return
	case <-machine.Done():
	}
	end()
	s.mu.Lock()
	dismissed := l.machine != machine
	s.mu.Unlock()
	if !dismissed {
		s.fail(l, endSentence(machine.Failure()))
	}
}

// watchLocked watches l's machine.
func (s *Service) watchLocked(l *live) {
	machine, end := l.machine, l.end
	s.spawnLocked(func() { s.watch(l, machine, end) })
}

func (s *Service) fail(l *live, sentence string) {
	ctx, cancel := context.WithTimeout(context.Background(), removeTime)
	defer cancel()
	switch err := s.turn(ctx, l, panda.Failed, sentence, panda.Running, panda.Paused); {
	case errors.Is(err, errStatus):
		return // it was ended on purpose, and who did that cleans up
	case err != nil:
		s.cfg.Log.Error("record that a sandbox failed", logkey.Sandbox, l.id, logkey.Error, err)
	}
	s.cfg.Observer.SandboxFailed()
	s.cfg.Log.Warn("sandbox failed", logkey.Sandbox, l.id, "failure", sentence)
	s.mu.Lock()
	machine := l.machine
	s.mu.Unlock()
	if err := s.endMachine(ctx, l, machine); err != nil {
		s.cfg.Log.Error("end what is left of a failed machine", logkey.Sandbox, l.id, logkey.Error, err)
		return // its user id is not safe to give away
	}
	s.vacate(l)
}

// endSentence says that a machine has ended, and why if that is known.
func endSentence(failure string) string {
	const subject = "the virtual machine ended"
	failure = shorten(failure, 512)
	switch {
	case failure == "":
		return subject + " unexpectedly"
	case strings.HasPrefix(failure, "the virtual machine"):
		return failure
	}
	return subject + ": " + failure
}

// Close stops the service and waits for what is under way, at most until ctx
// ends. Creations are undone. See Config.EndOnClose for what becomes of the
// sandboxes. A second call does nothing.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	creations := s.creationsLocked()
	s.mu.Unlock()
	close(s.closing)
	for _, c := range creations {
		c.cancel(errClosing)
	}
	var errs []error
	for _, c := range creations {
		errs = append(errs, wait(ctx, c.done))
	}
	if s.cfg.EndOnClose {
		errs = append(errs, s.deleteAll(ctx))
	}
	errs = append(errs, s.waitForWork(ctx), s.drainPool(ctx))
	return errors.Join(errs...)
}

func (s *Service) creationsLocked() []*creation {
	var all []*creation
	for _, l := range s.live {
		if l.create != nil {
			all = append(all, l.create)
		}
	}
	return all
}

func (s *Service) deleteAll(ctx context.Context) error {
	all, _ := s.List(ctx)
	failed := make(chan error, len(all))
	for _, sb := range all {
		go func() { failed <- s.Delete(ctx, sb.ID) }()
	}
	var errs []error
	for range all {
		if err := <-failed; err != nil && panda.CodeOf(err) != panda.CodeOf(notFound("")) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s *Service) waitForWork(ctx context.Context) error {
	s.mu.Lock()
	s.sealed = true
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.work.Wait()
		close(done)
	}()
	if err := wait(ctx, done); err != nil {
		return fmt.Errorf("wait for what is under way: %w", err)
	}
	return nil
}

// spawn runs f in a goroutine that Close waits for; false when it is too late.
func (s *Service) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spawnLocked(f)
}

func (s *Service) spawnLocked(f func()) bool {
	if s.sealed {
		return false
	}
	s.work.Go(f)
	return true
}

func wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
