package sandbox

import (
	"context"
	"time"

	"pandastack/api"
	"pandastack/internal/kit/logkey"
	"pandastack/internal/panda"
)

// retryDelete is how long an expired sandbox that could not be put away is left.
const retryDelete = 10 * time.Second

// expire puts sandboxes away as their time ends, until Close.
func (s *Service) expire() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(s.untilNextExpiry())
		select {
		case <-s.closing:
			return
		case <-s.retime:
		case <-timer.C:
			s.putAwayExpired()
		}
	}
}

// untilNextExpiry is a day at most: the wall clock may be set.
func (s *Service) untilNextExpiry() time.Duration {
	const longest = 24 * time.Hour
	s.mu.Lock()
	defer s.mu.Unlock()
	next, ok := s.nextExpiryLocked()
	if !ok {
		return longest
	}
	return min(max(next.Sub(s.cfg.Now()), 0), longest)
}

func (s *Service) nextExpiryLocked() (next time.Time, ok bool) {
	for _, l := range s.live {
		at := l.expiresLocked()
		if !at.IsZero() && (!ok || at.Before(next)) {
			next, ok = at, true
		}
	}
	return next, ok
}

// expiresLocked is when the loop should look at l, or the zero time.
func (l *live) expiresLocked() time.Time {
	at := l.record.ExpiresAt()
	if at.IsZero() || l.create != nil || l.deletion != nil {
		return time.Time{}
	}
	if at.Before(l.notAgain) {
		return l.notAgain
	}
	return at
}

func (s *Service) putAwayExpired() {
	s.mu.Lock()
	var expired []*live
	for _, l := range s.live {
		if at := l.expiresLocked(); !at.IsZero() && !at.After(s.cfg.Now()) {
			expired = append(expired, l)
			l.notAgain = s.cfg.Now().Add(retryDelete)
		}
	}
	s.mu.Unlock()
	for _, l := range expired {
		s.spawn(func() { s.putAway(l, "its time to live is over") })
	}
}

// putAway does to a sandbox what is to happen when its time is over.
func (s *Service) putAway(l *live, reason string) {
	record := s.status(l)
	var err error
	if record.OnTimeout == panda.OnTimeoutHibernate && record.Status != panda.Failed {
		_, err = s.Hibernate(context.Background(), l.id)
	} else {
		err = s.Delete(context.Background(), l.id)
	}
	if err != nil && panda.CodeOf(err) != api.CodeSandboxNotFound {
		s.cfg.Log.Error("put a sandbox away", "how", record.OnTimeout, logkey.Reason, reason, logkey.Sandbox, l.id, logkey.Error, err)
		s.rearm()
		return
	}
	s.cfg.Log.Info("sandbox put away", "how", record.OnTimeout, logkey.Reason, reason, logkey.Sandbox, l.id)
}

// rearm makes the expiry loop look at the deadlines anew.
func (s *Service) rearm() {
	select {
	case s.retime <- struct{}{}:
	default: // it will look anyway
	}
}
