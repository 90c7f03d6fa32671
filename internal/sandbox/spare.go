package sandbox

import (
	"cmp"
	"context"
	"slices"
	"time"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/kit/logkey"
	"pandastack/internal/panda"
)

// roomTries is how many idle sandboxes one start may send to sleep.
const roomTries = 4

// withRoom calls admit, and where the node is full lets sandboxes that nobody uses
// hibernate before it says so.
func (s *Service) withRoom(ctx context.Context, admit func() error) error {
	err := admit()
	for range roomTries {
		if panda.CodeOf(err) != api.CodeSandboxCapacity || !s.makeRoom(ctx) {
			return err
		}
		err = admit()
	}
	return err
}

// makeRoom hibernates the sandbox that has been idle the longest, if there is one.
func (s *Service) makeRoom(ctx context.Context) bool {
	for _, l := range s.spare() {
		if !s.atRest(ctx, l) {
			continue
		}
		if _, err := s.Hibernate(ctx, l.id); err != nil {
			s.cfg.Log.Warn("make room", logkey.Sandbox, l.id, logkey.Error, err)
			continue
		}
		s.cfg.Log.Info("an idle sandbox was hibernated to make room", logkey.Sandbox, l.id)
		return true
	}
	return false
}

// spare are the running sandboxes that wake by themselves and that nobody has used
// for a while, the longest idle first.
func (s *Service) spare() []*live {
	s.mu.Lock()
	defer s.mu.Unlock()
	idle := map[*live]time.Duration{}
	var all []*live
	for _, l := range s.live {
		if l.record.Status != panda.Running || !l.record.AutoWake || l.create != nil || l.deletion != nil || l.moving != nil {
			continue
		}
		if idle[l] = l.use.idle(); idle[l] >= s.cfg.Limits.SpareIdle {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b *live) int { return cmp.Compare(idle[b], idle[a]) })
	return all
}

// atRest asks whether no cell runs in a sandbox.
func (s *Service) atRest(ctx context.Context, l *live) bool {
	in, moving, err := s.session(l.id)
	if moving != nil || err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, usageTime)
	defer cancel()
	kernels, err := in.guest.Kernels(ctx)
	busy := slices.ContainsFunc(kernels, func(k guestproto.Kernel) bool { return k.State == guestproto.KernelBusy })
	return err == nil && !busy
}
