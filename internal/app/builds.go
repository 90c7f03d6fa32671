package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"pandastack/api"
	"pandastack/internal/panda"
	"pandastack/internal/sandbox"
	"pandastack/internal/template"
)

// How long a caller waits for a template that is not ready, and when it should
// come again. A build takes minutes, longer than clients wait for an answer.
const (
	buildPatience = 20 * time.Second
	buildRetry    = 15 * time.Second
)

// builds gives the sandbox service its warm snapshots. A template that has none
// is built by the node, not by the caller who asked first: it may leave, and the
// build goes on.
type builds struct {
	ensure func(context.Context, string) (sandbox.Warm, error)
	wait   time.Duration
	work   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	under  map[string]*underway
}

type underway struct {
	cancel context.CancelFunc
	done   chan struct{} // closed once the rest is set
	warm   sandbox.Warm
	err    error
}

func newBuilds(ensure func(context.Context, string) (sandbox.Warm, error)) *builds {
	return &builds{ensure: ensure, wait: buildPatience, under: map[string]*underway{}}
}

// Ensure gives a template's warm snapshot, or template.building.
func (b *builds) Ensure(ctx context.Context, name string) (sandbox.Warm, error) {
	u, err := b.join(name)
	if err != nil {
		return sandbox.Warm{}, err
	}
	timer := time.NewTimer(b.wait)
	defer timer.Stop()
	select {
	case <-u.done:
		return u.warm, u.err
	case <-ctx.Done():
		return sandbox.Warm{}, ctx.Err()
	case <-timer.C:
		return sandbox.Warm{}, building(name)
	}
}

func building(name string) error {
	return &panda.Error{
		Code: api.CodeTemplateBuilding, RetryAfter: buildRetry,
		Message: fmt.Sprintf("template %s is being built, which takes some minutes the first time", name),
	}
}

// join gives the build under way, or begins one.
func (b *builds) join(name string) (*underway, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, building(name)
	}
	if u := b.under[name]; u != nil {
		return u, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	u := &underway{cancel: cancel, done: make(chan struct{})}
	b.under[name] = u
	b.work.Go(func() {
		defer cancel()
		u.warm, u.err = b.ensure(ctx, name)
		b.mu.Lock()
		delete(b.under, name)
		b.mu.Unlock()
		close(u.done)
	})
	return u, nil
}

// close stops the builds; the next one of each goes on where it stopped.
func (b *builds) close() {
	b.mu.Lock()
	b.closed = true
	for _, u := range b.under {
		u.cancel()
	}
	b.mu.Unlock()
	b.work.Wait()
}

// ensureWith gives a template's warm snapshot as the sandbox service knows it.
func ensureWith(builder *template.Builder, log *slog.Logger) func(context.Context, string) (sandbox.Warm, error) {
	return func(ctx context.Context, name string) (sandbox.Warm, error) {
		warm, err := builder.Ensure(ctx, name, func(p template.Progress) {
			if p.Finished || p.Note != "" {
				log.InfoContext(ctx, "template build", "template", p.Template, "step", p.Step, "index", p.Index, "of", p.Of,
					"cached", p.Cached, "seconds", p.Elapsed.Seconds(), "note", p.Note)
			}
		})
		if err != nil {
			return sandbox.Warm{}, err
		}
		v := warm.Manifest.Variant
		return sandbox.Warm{
			Key: warm.Key(), MemoryPath: warm.Memory(), StatePath: warm.State(),
			Base: warm.Image.Base(), UpperRaw: warm.UpperRaw(), OverlaySeed: warm.Overlay(),
			Kernel: warm.Image.Kernel(), Initrd: warm.Initrd, Cmdline: warm.Manifest.Cmdline,
			CPUs: v.CPU, MemoryMB: v.MemoryMB, CompatKey: warm.Manifest.Compat,
		}, nil
	}
}
