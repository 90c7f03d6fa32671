package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"pandastack/api"
	"pandastack/internal/panda"
	"pandastack/internal/store"
)

// use is whether anybody works in a sandbox, and when somebody did last. It
// begins anew with the server.
type use struct {
	now func() time.Time

	mu    sync.Mutex
	calls int       // under way
	last  time.Time // when the last one ended, or the sandbox began
	cpu   sample    // the guest's, when it was looked at last
}

func (u *use) begin() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.calls++
}

func (u *use) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.calls--
	u.last = u.now()
}

// touch makes the idle time begin now.
func (u *use) touch() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last = u.now()
}

// lookDue says whether to look at the guest: at the begin of an idle time, and when
// it is as long as limit.
func (u *use) lookDue(limit time.Duration) bool {
	idle := u.idle()
	u.mu.Lock()
	defer u.mu.Unlock()
	return idle > 0 && (u.cpu.at.Before(u.last) || idle >= limit)
}

// quiet compares the guest's use of CPU with that at the begin of the idle time. Too
// much of it begins the idle time anew.
func (u *use) quiet(now sample) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.cpu.at.Before(u.last) {
		u.cpu = now
		return false
	}
	if now.cpuSeconds-u.cpu.cpuSeconds > idleShare*now.at.Sub(u.cpu.at).Seconds() {
		u.last, u.cpu = now.at, now
		return false
	}
	return true
}

func (u *use) idle() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calls > 0 {
		return 0
	}
	return max(u.now().Sub(u.last), 0)
}

// Lifecycle says when a sandbox ends by itself and how long it has been idle.
func (s *Service) Lifecycle(_ context.Context, id string) (api.Lifecycle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.live[id]
	if l == nil {
		return api.Lifecycle{}, notFound(id)
	}
	return l.lifecycleLocked(), nil
}

func (l *live) lifecycleLocked() api.Lifecycle {
	out := api.Lifecycle{
		TTLSeconds: int(l.record.TTL.Seconds()), Persistent: l.record.Persistent,
		IdleSeconds: l.use.idle().Seconds(), IdleTimeoutSeconds: int(l.record.IdleTimeout.Seconds()),
		OnTimeout: l.record.OnTimeout, AutoWake: l.record.AutoWake,
	}
	if at := l.record.ExpiresAt(); !at.IsZero() {
		at = at.UTC()
		out.ExpiresAt = &at
	}
	return out
}

// SetLifecycle changes what req names; a time to live counts from now. When it
// returns without an error the change outlives the server.
func (s *Service) SetLifecycle(ctx context.Context, id string, req api.SetLifecycle) (api.Lifecycle, error) {
	if err := checkLifecycle(req); err != nil {
		return api.Lifecycle{}, err
	}
	l, err := s.settled(id)
	if err != nil {
		return api.Lifecycle{}, err
	}
	err = s.amend(ctx, l, func(record *panda.Sandbox) {
		if req.TTLSeconds != nil {
			record.TTL, record.TTLFrom = time.Duration(*req.TTLSeconds)*time.Second, s.cfg.Now().UTC()
		}
		if req.Persistent != nil {
			record.Persistent = *req.Persistent
		}
		if req.IdleTimeoutSeconds != nil {
			record.IdleTimeout = time.Duration(*req.IdleTimeoutSeconds) * time.Second
		}
		if req.OnTimeout != nil {
			record.OnTimeout = *req.OnTimeout
		}
		if req.AutoWake != nil {
			record.AutoWake = *req.AutoWake
		}
	})
	if err != nil {
		return api.Lifecycle{}, err
	}
	s.rearm()
	return s.Lifecycle(ctx, id)
}

// settled gives a sandbox that is neither being made nor being deleted.
func (s *Service) settled(id string) (*live, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.live[id]
	switch {
	case l == nil:
		return nil, notFound(id)
	case l.create != nil:
		return nil, &panda.Error{Code: api.CodeSandboxNotRunning, Message: "the sandbox is not ready yet"}
	case l.deletion != nil:
		return nil, &panda.Error{Code: api.CodeSandboxNotRunning, Message: "the sandbox is being deleted"}
	}
	return l, nil
}

// amend changes a sandbox's record but not its status, in the store and then here.
func (s *Service) amend(ctx context.Context, l *live, change func(*panda.Sandbox)) error {
	l.transit.Lock()
	defer l.transit.Unlock()
	s.mu.Lock()
	next := l.record
	s.mu.Unlock()
	change(&next)
	switch err := s.records.Update(ctx, next, next.Status); {
	case errors.Is(err, store.ErrNotFound):
		return notFound(l.id)
	case errors.Is(err, syscall.ENOSPC):
		return &panda.Error{Code: api.CodeHostDiskFull, Message: "the server's disk is full", Cause: err}
	case err != nil:
		return fmt.Errorf("change sandbox %s: %w", l.id, err)
	}
	s.mu.Lock()
	l.record = next
	s.mu.Unlock()
	return nil
}
