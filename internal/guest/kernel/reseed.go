package kernel

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"
)

// reseedLimit is how long a kernel that waits for its first cell may take.
const reseedLimit = 30 * time.Second

// Reseed gives every kernel fresh randomness of its own, derived from seed, before
// anything that it is sent later. It returns when they have it, but for those that
// nobody has seen draw a number: one that runs a cell gets it when that ends, and the
// spare is not waited for.
func (m *Manager) Reseed(ctx context.Context, seed []byte) error {
	kernels, spare := m.all()
	var later *asked
	if spare != nil {
		later = spare.reseed(seed)
	}
	begun := make([]*asked, 0, len(kernels))
	for _, k := range kernels {
		if a := k.reseed(seed); a != nil {
			begun = append(begun, a)
		}
	}
	if later != nil {
		spare.reseedLater(later)
	}
	var failed error
	for _, a := range begun {
		failed = errors.Join(failed, a.reseeded(ctx))
	}
	return failed
}

// reseed sends k its part of seed. There is nothing to wait for where it runs a cell,
// and nothing to do for a kernel that is not our own or has no process.
func (k *kernel) reseed(seed []byte) *asked {
	k.mu.Lock()
	p, busy, id := k.proc, k.running != nil, k.id
	k.mu.Unlock()
	if p == nil || k.spec != nil {
		return nil
	}
	own := sha256.Sum256(append([]byte(id+"\x00"), seed...))
	a, err := p.begin("control", reseedRequest{Op: "reseed", Seed: own[:]})
	if err != nil {
		k.kill(p) // it takes nothing any more: a fresh one has fresh randomness
		return nil
	}
	if busy {
		a.forget()
		return nil
	}
	return a
}

// reseeded waits until it is done, or the process is gone with what it knew.
func (a *asked) reseeded(ctx context.Context) error {
	if err := a.ok(ctx); err != nil && !errors.Is(err, errGone) {
		return err
	}
	return nil
}

// reseedLater lets the spare go on by itself. One that fails is killed: whoever has
// claimed it gets a new process.
func (k *kernel) reseedLater(a *asked) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.deleted {
		a.forget()
		return
	}
	k.work.Add(1)
	go func() {
		defer k.work.Done()
		ctx, cancel := context.WithTimeout(context.Background(), reseedLimit)
		defer cancel()
		if err := a.reseeded(ctx); err != nil {
			k.m.log.Error("reseed the spare kernel, which is killed", "error", err)
			k.kill(a.p)
		}
	}()
}
