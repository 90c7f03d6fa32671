package sandbox

import (
	"context"
	"time"

	"pandastack/internal/panda"
)

const (
	// idleShare is how much of one CPU a guest may use and still be idle.
	idleShare = 0.02
	// idleLook is how often idle sandboxes are looked for; shorter where an idle
	// time is shorter.
	idleLook    = 10 * time.Second
	idleLookMin = 250 * time.Millisecond
)

// sample is how much CPU a guest had used at a moment.
type sample struct {
	at         time.Time
	cpuSeconds float64
}

// watchIdle puts sandboxes away that have been idle for long enough, until Close.
func (s *Service) watchIdle() {
	for {
		select {
		case <-s.closing:
			return
		case <-time.After(s.nextIdleLook()):
			for _, l := range s.perhapsIdle() {
				s.spawn(func() { s.lookIdle(l) })
			}
		}
	}
}

// nextIdleLook is often enough for the shortest idle time.
func (s *Service) nextIdleLook() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := idleLook
	for _, l := range s.live {
		if l.record.IdleTimeout > 0 {
			wait = min(wait, max(l.record.IdleTimeout/4, idleLookMin))
		}
	}
	return wait
}

// perhapsIdle are the running sandboxes with an idle time that are to be looked at.
func (s *Service) perhapsIdle() (all []*live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.live {
		if l.record.Status != panda.Running || l.record.IdleTimeout == 0 || l.create != nil || l.deletion != nil || l.moving != nil {
			continue
		}
		if !l.looking && l.use.lookDue(l.record.IdleTimeout) {
			l.looking = true
			all = append(all, l)
		}
	}
	return all
}

// lookIdle asks the guest, whose cells and processes go on without any call. What
// it says counts over the time since nobody called: a busy moment begins it anew.
func (s *Service) lookIdle(l *live) {
	idle := s.stillIdle(l)
	s.mu.Lock()
	l.looking = false
	over := idle && l.use.idle() >= l.record.IdleTimeout
	s.mu.Unlock()
	if over {
		s.putAway(l, "it was idle")
	}
}

func (s *Service) stillIdle(l *live) bool {
	if !s.atRest(context.Background(), l) {
		l.use.touch()
		return false
	}
	in, moving, err := s.session(l.id)
	if moving != nil || err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(in.ended, usageTime)
	defer cancel()
	stats, err := in.guest.Stats(ctx)
	if err != nil {
		return false
	}
	return l.use.quiet(sample{s.cfg.Now(), stats.CPUSeconds})
}
