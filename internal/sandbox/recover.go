package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"pandastack/internal/kit/ids"
	"pandastack/internal/kit/logkey"
	"pandastack/internal/panda"
	"pandastack/internal/shim"
)

const (
	adoptTime   = 30 * time.Second // for one machine to answer, on a host that just started
	adoptAtOnce = 8
)

// found counts what Start met.
type found struct {
	adopted, hibernated, failed, discarded, orphans, errors int
}

// Start takes up what an earlier server has left: machines that run are adopted
// with everything in them, those that are gone make their sandbox failed, half
// made and half removed sandboxes are removed, and so is every run folder that
// belongs to none. Call it once, before anything else.
func (s *Service) Start(ctx context.Context) error {
	if err := os.MkdirAll(s.cfg.RunsDir, 0o700); err != nil {
		return fmt.Errorf("start sandboxes: %w", err)
	}
	records, err := s.records.List(ctx)
	if err != nil {
		return fmt.Errorf("start sandboxes: %w", err)
	}
	dirs, err := os.ReadDir(s.cfg.RunsDir)
	if err != nil {
		return fmt.Errorf("start sandboxes: %w", err)
	}
	var all []*live
	for _, record := range records {
		l := s.newLive(record.ID)
		l.record, l.env = record, record.Env
		s.live[l.id] = l
		all = append(all, l)
	}
	for _, dir := range dirs {
		if ids.Valid(dir.Name()) && s.live[dir.Name()] == nil {
			all = append(all, s.newLive(dir.Name())) // no record, so no status
		}
	}
	count := s.recoverAll(ctx, all)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("start sandboxes: %w", err)
	}
	if err := s.dropSaves(ctx); err != nil { // the next Start tries again
		s.cfg.Log.Error("remove saves that nothing needs", logkey.Error, err)
	}
	s.spawn(s.expire)
	s.spawn(s.watchIdle)
	if s.poolRoom() > 0 {
		s.spawn(s.fillPool)
	}
	if count != (found{}) {
		s.cfg.Log.Info("found sandboxes of an earlier server", "adopted", count.adopted, "hibernated", count.hibernated, "failed", count.failed,
			"discarded", count.discarded, "orphans", count.orphans, "errors", count.errors)
	}
	return nil
}

func (s *Service) recoverAll(ctx context.Context, all []*live) found {
	var mu sync.Mutex
	var total found
	var group sync.WaitGroup
	slots := make(chan struct{}, adoptAtOnce)
	for _, l := range all {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			count := s.takeUp(ctx, l)
			mu.Lock()
			defer mu.Unlock()
			total.adopted += count.adopted
			total.hibernated += count.hibernated
			total.failed += count.failed
			total.discarded += count.discarded
			total.orphans += count.orphans
			total.errors += count.errors
		})
	}
	group.Wait()
	return total
}

func (s *Service) takeUp(ctx context.Context, l *live) found {
	switch l.record.Status {
	case panda.Hibernated:
		if err := s.sleepOn(ctx, l); err != nil {
			s.cfg.Log.Error("end what is left of a wake that was not finished", logkey.Sandbox, l.id, logkey.Error, err)
			return found{errors: 1}
		}
		return found{hibernated: 1}
	case panda.Running, panda.Paused:
		if s.adopt(ctx, l) {
			return found{adopted: 1}
		}
		if ctx.Err() != nil { // Start is called off: the machine may well be alive
			return found{}
		}
		s.fail(l, "the virtual machine was gone when the server started again")
		return found{failed: 1}
	case panda.Failed:
		if err := s.endMachine(ctx, l, nil); err != nil {
			s.cfg.Log.Error("end what is left of a failed machine", logkey.Sandbox, l.id, logkey.Error, err)
			return found{failed: 1, errors: 1}
		}
		return found{failed: 1}
	}
	if err := s.discard(ctx, l); err != nil {
		// Its record, if it has one, stays in the list and Delete tries again.
		s.cfg.Log.Error("remove a sandbox left half made or half removed", logkey.Sandbox, l.id, logkey.Error, err)
		return found{errors: 1}
	}
	if l.record.Status == "" {
		return found{orphans: 1}
	}
	return found{discarded: 1}
}

func (s *Service) adopt(ctx context.Context, l *live) bool {
	ctx, cancel := context.WithTimeout(ctx, adoptTime)
	defer cancel()
	machine, err := s.cfg.Starter.Adopt(ctx, l.dir)
	if err != nil {
		s.cfg.Log.Info("adopt sandbox", logkey.Sandbox, l.id, logkey.Error, err)
		return false
	}
	if err := s.settleMachine(ctx, l, machine); err != nil {
		s.cfg.Log.Info("go on with an adopted sandbox", logkey.Sandbox, l.id, logkey.Error, err)
		return false
	}
	uid, err := readUID(l.dir)
	if err != nil {
		s.cfg.Log.Error("user id of an adopted machine", logkey.Sandbox, l.id, logkey.Error, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.machine, l.uid, l.room = machine, uid, true
	l.memoryMB = s.cfg.Limits.privateMB(l.record.MemoryMB)
	if uid != 0 {
		s.uids[uid] = true
	}
	s.watchLocked(l)
	return true
}

// settleMachine makes an adopted machine run or stand still as its record says: the
// server may have been killed in the middle of an operation, or of claiming it
// from the pool.
func (s *Service) settleMachine(ctx context.Context, l *live, machine shim.Machine) error {
	state, err := machine.State(ctx)
	switch {
	case err != nil:
		return err
	case l.record.Status == panda.Paused:
		return machine.Stop(ctx)
	case state.Phase == shim.PhaseStopped:
		_, err := machine.Cont(ctx, identity(l.id))
		return err
	}
	return nil
}

// sleepOn ends a machine that was to wake a sandbox whose record does not know of it.
func (s *Service) sleepOn(ctx context.Context, l *live) error {
	if err := s.endMachine(ctx, l, nil); err != nil {
		return err
	}
	l.end()
	return os.RemoveAll(l.dir)
}

// dropSaves removes what was being saved, or was used up, when a server was killed.
func (s *Service) dropSaves(ctx context.Context) error {
	named := map[string]bool{}
	for _, l := range s.live {
		named[l.record.Saved] = true
	}
	snapshots, err := s.Snapshots(ctx, "")
	if err != nil {
		return err
	}
	for _, sn := range snapshots {
		named[sn.ID] = true
	}
	return s.sweepSaves(named)
}

func readUID(dir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, uidFile))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// discard removes every trace of l.
func (s *Service) discard(ctx context.Context, l *live) error {
	if err := s.endMachine(ctx, l, nil); err != nil {
		return err
	}
	err := errors.Join(os.RemoveAll(l.dir), s.records.Delete(ctx, l.id))
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.live, l.id)
	}
	return err
}
