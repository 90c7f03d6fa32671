package sandbox

import (
	"context"
	"errors"
	"math"
	"time"

	"pandastack/api"
	"pandastack/internal/kit/logkey"
)

// Pool says how many machines wait ready. The zero value keeps none.
type Pool struct {
	Max int // of all templates together
	// MemoryMB is what they may use, each reckoned as readyMB; 0: no limit but Max.
	MemoryMB int
	// First names templates of which one is made ready before anybody asks. They
	// must be built.
	First []string
}

const (
	readyMB       = 72               // private memory of a ready machine with its shim
	arrivalWindow = time.Minute      // over which the rate of creations is taken
	arrivalMemory = 15 * time.Minute // after it without a creation none is kept ready, but of First
	poolRetry     = 30 * time.Second // after a machine that could not be made ready
	poolLook      = 15 * time.Second // how often a pool nobody uses is looked after

	// A sandbox that was just created is about to run its first cell: making another
	// machine waits for fillPause without a creation, but no longer than fillLimit.
	fillPause = 200 * time.Millisecond
	fillLimit = 2 * time.Second
)

// pool is the machines that wait ready, by template. It is guarded by Service.mu.
type pool struct {
	ready    map[string][]*ready
	arrivals map[string][]time.Time // of the last arrivalMemory at most, the latest last
	latest   time.Time              // the latest arrival of all, by the real clock
	takes    time.Duration          // how long making one took, on average
	kick     chan struct{}
}

func newPool(first []string) pool {
	p := pool{
		ready: map[string][]*ready{}, arrivals: map[string][]time.Time{},
		takes: time.Second, kick: make(chan struct{}, 1),
	}
	for _, name := range first {
		p.arrivals[name] = nil // known, though nobody came
	}
	return p
}

// PoolState says how full the pool is.
type PoolState struct{ Ready, Wanted int }

// Pool gives the pool's state.
func (s *Service) Pool() PoolState {
	s.mu.Lock()
	defer s.mu.Unlock()
	var state PoolState
	for name := range s.pool.arrivals {
		state.Ready += len(s.pool.ready[name])
		state.Wanted += s.wantedLocked(name)
	}
	state.Wanted = min(state.Wanted, s.poolRoom())
	return state
}

// poolRoom is how many machines the pool may hold.
func (s *Service) poolRoom() int {
	if mb := s.cfg.Pool.MemoryMB; mb > 0 {
		return min(s.cfg.Pool.Max, mb/readyMB)
	}
	return s.cfg.Pool.Max
}

// arrived notes a creation, which is what the pool's size follows.
func (s *Service) arrived(template string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pool.latest = time.Now()
	now := s.cfg.Now()
	times := s.pool.arrivals[template]
	for len(times) > 0 && (now.Sub(times[0]) > arrivalWindow || len(times) > 1000) {
		times = times[1:]
	}
	s.pool.arrivals[template] = append(times, now)
	s.kickPool()
}

func (s *Service) kickPool() {
	select {
	case s.pool.kick <- struct{}{}:
	default:
	}
}

// wantedLocked is how many machines of a template should wait: one, and as many
// more as will be asked for while two are made.
func (s *Service) wantedLocked(template string) int {
	now := s.cfg.Now()
	times := s.pool.arrivals[template]
	if len(times) == 0 || now.Sub(times[len(times)-1]) > arrivalMemory {
		for _, first := range s.cfg.Pool.First {
			if first == template {
				return 1
			}
		}
		return 0
	}
	recent := 0
	for _, t := range times {
		if now.Sub(t) <= arrivalWindow {
			recent++
		}
	}
	rate := float64(recent) / arrivalWindow.Seconds()
	return 1 + int(math.Ceil(rate*2*s.pool.takes.Seconds()))
}

// fillPool makes machines ready one after another, and drops those that are too
// many or dead, until the service closes.
func (s *Service) fillPool() {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-s.closing:
			cancel(errClosing)
		case <-stop:
		}
	}()
	var lacking time.Time
	for ctx.Err() == nil {
		wait, failed := s.fillNext(ctx, &lacking)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.kickUnless(failed):
		}
		timer.Stop()
	}
}

// fillNext makes the machine that is lacked most, if any, or says how long to wait
// and whether nothing but time helps. lacking is since when any was lacked.
func (s *Service) fillNext(ctx context.Context, lacking *time.Time) (wait time.Duration, failed bool) {
	name := s.nextWanted(ctx)
	if name == "" {
		*lacking = time.Time{}
		return poolLook, false
	}
	if lacking.IsZero() {
		*lacking = time.Now()
	}
	if wait := s.fillDelay(*lacking); wait > 0 {
		return wait, false
	}
	if err := s.observeFill(func() error { return s.fillOne(ctx, name) }); err != nil && ctx.Err() == nil {
		s.cfg.Log.Warn("make a machine ready", logkey.Template, name, logkey.Error, err)
		return poolRetry, true
	}
	return 0, false
}

// fillDelay is how long to leave the processors to what runs.
func (s *Service) fillDelay(lacking time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	calm, patience := fillPause-time.Since(s.pool.latest), fillLimit-time.Since(lacking)
	return max(min(calm, patience), 0)
}

// kickUnless is the pool's kick, or nothing: after a failure only time helps.
func (s *Service) kickUnless(failed bool) <-chan struct{} {
	if failed {
		return nil
	}
	return s.pool.kick
}

// nextWanted drops what is dead or too much and names the template that lacks
// the most machines, if any.
func (s *Service) nextWanted(ctx context.Context) string {
	s.mu.Lock()
	var drop []*ready
	held := 0
	best, lacks := "", 0
	for name := range s.pool.arrivals {
		wanted := min(s.wantedLocked(name), s.poolRoom())
		var keep []*ready
		for _, r := range s.pool.ready[name] {
			if r.dead() || len(keep) >= wanted {
				drop = append(drop, r)
				continue
			}
			keep = append(keep, r)
		}
		s.pool.ready[name] = keep
		held += len(keep)
		if lack := wanted - len(keep); lack > lacks {
			best, lacks = name, lack
		}
	}
	full := held >= s.poolRoom()
	s.mu.Unlock()
	for _, r := range drop {
		s.discardReady(ctx, r)
	}
	if full {
		return ""
	}
	return best
}

func (s *Service) fillOne(ctx context.Context, name string) error {
	if err := s.checkHost(); err != nil {
		return err
	}
	began := time.Now()
	r, err := s.makeReady(ctx, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		return err
	}
	s.pool.takes = (s.pool.takes*3 + time.Since(began)) / 4
	s.pool.ready[name] = append(s.pool.ready[name], r)
	return nil
}

// takeReady gives a machine of the template as it is now, or nil. Those of an
// older one are dropped.
func (s *Service) takeReady(ctx context.Context, req api.CreateSandbox) *ready {
	template := req.Template
	if !keptReady(req) {
		return nil
	}
	for {
		s.mu.Lock()
		list := s.pool.ready[template]
		if len(list) == 0 {
			s.mu.Unlock()
			return nil
		}
		r := list[0]
		s.pool.ready[template] = list[1:]
		s.mu.Unlock()
		warm, err := s.cfg.Templates.Ensure(ctx, template, Size{})
		if err == nil && warm.Key == r.warm.Key && !r.dead() {
			return r
		}
		s.spawn(func() { s.discardReady(context.Background(), r) })
	}
}

// drainPool ends all machines that wait. Nobody fills the pool any more.
func (s *Service) drainPool(ctx context.Context) error {
	s.mu.Lock()
	var all []*ready
	for _, list := range s.pool.ready {
		all = append(all, list...)
	}
	clear(s.pool.ready)
	s.mu.Unlock()
	ended := make(chan error, len(all))
	for _, r := range all {
		go func() { ended <- s.discardReady(ctx, r) }()
	}
	var errs []error
	for range all {
		errs = append(errs, <-ended)
	}
	return errors.Join(errs...)
}
