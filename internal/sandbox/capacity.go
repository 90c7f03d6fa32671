package sandbox

import (
	"errors"
	"fmt"
	"time"

	"pandastack/api"
	"pandastack/internal/panda"
)

// admit gives a new sandbox a place and a user id, or says sandbox.capacity.
func (s *Service) admit(l *live) error {
	if err := s.admitMachine(l); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[l.id] = l
	return nil
}

func (s *Service) admitMachine(l *live) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return shuttingDown()
	}
	if err := s.checkPlaceLocked(); err != nil {
		return err
	}
	uid, ok := s.takeUIDLocked()
	if !ok {
		return s.fullLocked("all user ids for virtual machines are in use")
	}
	l.uid, l.room = uid, true
	return nil
}

// admitMemory counts l's memory in, or says sandbox.capacity.
func (s *Service) admitMemory(l *live, templateMB int) error {
	need := s.cfg.Limits.privateMB(templateMB)
	if err := s.checkHost(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkMemoryLocked(need); err != nil {
		return err
	}
	l.memoryMB = need
	return nil
}

// admitAgain gives a sandbox that had none a place, memory and a user id, or says
// sandbox.capacity.
func (s *Service) admitAgain(l *live, templateMB int) error {
	if err := s.admitMachine(l); err != nil {
		return err
	}
	if err := s.admitMemory(l, templateMB); err != nil {
		s.vacate(l)
		return err
	}
	return nil
}

// admitReady counts in a sandbox whose machine is there already.
func (s *Service) admitReady(l *live, templateMB int) error {
	need := s.cfg.Limits.privateMB(templateMB)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return shuttingDown()
	}
	if err := errors.Join(s.checkPlaceLocked(), s.checkMemoryLocked(need)); err != nil {
		return err
	}
	l.room, l.memoryMB = true, need
	s.live[l.id] = l
	return nil
}

func (s *Service) checkPlaceLocked() error {
	n, _ := s.usedLocked()
	if limit := s.cfg.Limits.Sandboxes; limit > 0 && n >= limit {
		return s.fullLocked(fmt.Sprintf("%d sandboxes are running, as many as this server is set to", n))
	}
	return nil
}

func (s *Service) checkMemoryLocked(need int) error {
	_, used := s.usedLocked()
	if limit := s.cfg.Limits.MemoryMB; limit > 0 && used+need > limit {
		return s.fullLocked(fmt.Sprintf("another sandbox needs %d MB, and %d of %d MB are taken", need, used, limit))
	}
	return nil
}

// checkHost looks at the memory that the host really has.
func (s *Service) checkHost() error {
	if s.cfg.HostMemory == nil {
		return nil
	}
	available, err := s.cfg.HostMemory()
	if err != nil {
		return fmt.Errorf("look at the host's memory: %w", err)
	}
	need, has := s.cfg.Limits.ReserveMB+readyMB, int(available>>20)
	if has >= need {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fullLocked(fmt.Sprintf("the host has %d MB of memory available, and another sandbox needs %d with what is kept back", has, need))
}

func (l Limits) privateMB(templateMB int) int {
	if l.PrivateMB > 0 {
		return l.PrivateMB
	}
	return templateMB
}

// vacate gives back what l's machine took of the node. It is fine twice.
func (s *Service) vacate(l *live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.uids, l.uid)
	l.uid, l.memoryMB, l.room = 0, 0, false
}

func (s *Service) usedLocked() (sandboxes, memoryMB int) {
	for _, l := range s.live {
		if l.room {
			sandboxes++
			memoryMB += l.memoryMB
		}
	}
	return sandboxes, memoryMB
}

// takeUIDLocked gives the lowest free user id; 0 where the node has none to give.
func (s *Service) takeUIDLocked() (uid int, ok bool) {
	if s.cfg.UIDs.Count == 0 {
		return 0, true
	}
	for n := range s.cfg.UIDs.Count {
		uid := s.cfg.UIDs.First + n
		if !s.uids[uid] {
			s.uids[uid] = true
			return uid, true
		}
	}
	return 0, false
}

// fullLocked is sandbox.capacity; a caller may come again when the next
// sandbox runs out of its time, and within a minute in any case.
func (s *Service) fullLocked(message string) error {
	const soonest, latest = 5 * time.Second, time.Minute
	wait := latest
	if next, ok := s.nextExpiryLocked(); ok {
		wait = min(max(next.Sub(s.cfg.Now()), soonest), latest)
	}
	return &panda.Error{Code: api.CodeSandboxCapacity, Message: message, RetryAfter: wait}
}
