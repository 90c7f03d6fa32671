package sandbox

import (
	"context"
	"time"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/kit/logkey"
	"pandastack/internal/panda"
)

// Observer hears of what happens, for metrics. Its methods return at once and
// may be called concurrently.
type Observer interface {
	// SandboxStarted tells of a creation that succeeded.
	SandboxStarted(start api.Start)
	// SandboxNotStarted tells of one that did not, with its error's code, or caller_left.
	SandboxNotStarted(code string)
	// PoolFilled tells of a machine that was made ready: ok or error.
	PoolFilled(outcome string, took time.Duration)
	// SandboxFailed tells of a machine that ended though nobody had asked for it.
	SandboxFailed()
	// CellDone tells of a cell's end by its status.
	CellDone(status string, took time.Duration)
	// ExecDone tells of a process's end: exited, signaled, timeout or error.
	ExecDone(outcome string, took time.Duration)
}

// unobserved is the Observer of a service that was given none.
type unobserved struct{}

func (unobserved) SandboxStarted(api.Start)         {}
func (unobserved) SandboxNotStarted(string)         {}
func (unobserved) PoolFilled(string, time.Duration) {}
func (unobserved) SandboxFailed()                   {}
func (unobserved) CellDone(string, time.Duration)   {}
func (unobserved) ExecDone(string, time.Duration)   {}

func duration(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// observeNotStarted counts a creation that failed. A caller that left is no failure of the node.
func (s *Service) observeNotStarted(ctx context.Context, err error) {
	if ctx.Err() != nil {
		s.cfg.Observer.SandboxNotStarted("caller_left")
		return
	}
	s.cfg.Observer.SandboxNotStarted(panda.CodeOf(err))
}

// observeFill counts a machine made ready, or not.
func (s *Service) observeFill(fill func() error) error {
	began := time.Now()
	err := fill()
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	s.cfg.Observer.PoolFilled(outcome, time.Since(began))
	return err
}

// observeExec counts a process that ended, or did not.
func (s *Service) observeExec(exit *guestproto.ExecEvent) {
	switch {
	case exit == nil:
		s.cfg.Observer.ExecDone("error", 0)
	case exit.TimedOut:
		s.cfg.Observer.ExecDone("timeout", duration(exit.DurationMS))
	case exit.Signal != "":
		s.cfg.Observer.ExecDone("signaled", duration(exit.DurationMS))
	default:
		s.cfg.Observer.ExecDone("exited", duration(exit.DurationMS))
	}
}

// observeCell counts a cell that is done.
func (s *Service) observeCell(id string, ex api.Execution) {
	s.cfg.Observer.CellDone(ex.Status, duration(ex.DurationMS))
	s.cfg.Log.Debug("cell done", logkey.Sandbox, id, logkey.Context, ex.ContextID, logkey.Execution, ex.ID,
		logkey.Status, ex.Status, logkey.MS, ex.DurationMS)
}

// Load is what a node's sandboxes take together.
type Load struct {
	ByStatus      map[string]int
	ReservedBytes int64 // what they are reckoned to use
	LimitBytes    int64 // 0: none
	PoolReady     int   // machines that wait
	PoolWanted    int   // how many there are to be
}

// Load looks at all sandboxes.
func (s *Service) Load() Load {
	pool := s.Pool()
	load := Load{
		ByStatus: map[string]int{}, LimitBytes: int64(s.cfg.Limits.MemoryMB) << 20,
		PoolReady: pool.Ready, PoolWanted: pool.Wanted,
	}
	for _, status := range []panda.Status{panda.Creating, panda.Running, panda.Paused, panda.Hibernated, panda.Stopping, panda.Failed} {
		load.ByStatus[string(status)] = 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.live {
		load.ByStatus[string(l.record.Status)]++
	}
	_, mb := s.usedLocked()
	load.ReservedBytes = int64(mb) << 20
	return load
}
