package app

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"syscall"
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
	ensure ensureFunc
	wait   time.Duration
	work   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	under  map[wanted]*underway
}

type ensureFunc func(ctx context.Context, name string, size sandbox.Size) (sandbox.Warm, error)

// wanted is a template in one size.
type wanted struct {
	name string
	size sandbox.Size
}

type underway struct {
	cancel context.CancelFunc
	done   chan struct{} // closed once the rest is set
	warm   sandbox.Warm
	err    error
}

func newBuilds(ensure ensureFunc) *builds {
	return &builds{ensure: ensure, wait: buildPatience, under: map[wanted]*underway{}}
}

// Ensure gives a template's warm snapshot, or template.building.
func (b *builds) Ensure(ctx context.Context, name string, size sandbox.Size) (sandbox.Warm, error) {
	u, err := b.join(wanted{name, size})
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
func (b *builds) join(w wanted) (*underway, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, building(w.name)
	}
	if u := b.under[w]; u != nil {
		return u, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	u := &underway{cancel: cancel, done: make(chan struct{})}
	b.under[w] = u
	b.work.Go(func() {
		defer cancel()
		u.warm, u.err = b.ensure(ctx, w.name, w.size)
		b.mu.Lock()
		delete(b.under, w)
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
func ensureWith(builder *template.Builder, log *slog.Logger) ensureFunc {
	return func(ctx context.Context, name string, size sandbox.Size) (sandbox.Warm, error) {
		if err := fitsHost(size); err != nil {
			return sandbox.Warm{}, err
		}
		variant := template.Variant{CPU: size.CPUs, MemoryMB: size.MemoryMB}
		warm, err := builder.EnsureVariant(ctx, name, variant, func(p template.Progress) {
			if p.Log == "" && (p.Finished || p.Note != "") {
				log.InfoContext(ctx, "template build", "template", p.Template, "step", p.Step, "index", p.Index, "of", p.Of,
					"cached", p.Cached, "seconds", p.Elapsed.Seconds(), "note", p.Note)
			}
		})
		if err != nil {
			return sandbox.Warm{}, err
		}
		return warmOf(warm), nil
	}
}

// warmOf is a warm snapshot as the sandbox service knows it.
func warmOf(warm *template.Warm) sandbox.Warm {
	v := warm.Manifest.Variant
	return sandbox.Warm{
		Key: warm.Key(), MemoryPath: warm.Memory(), StatePath: warm.State(),
		Base: warm.Image.Base(), UpperRaw: warm.UpperRaw(), OverlaySeed: warm.Overlay(),
		Kernel: warm.Image.Kernel(), Initrd: warm.Initrd, Cmdline: warm.Manifest.Cmdline,
		CPUs: v.CPU, MemoryMB: v.MemoryMB, CompatKey: warm.Manifest.Compat,
	}
}

// warmSnapshots is the sandbox service's view of templates.
type warmSnapshots struct {
	*builds
	builder  *template.Builder
	machines *machines
}

// Stored gives a snapshot that something saved lies on.
func (w warmSnapshots) Stored(_ context.Context, key string) (sandbox.Warm, error) {
	warm, err := w.builder.Stored(key)
	if err != nil {
		return sandbox.Warm{}, fmt.Errorf("the template's snapshot %s, which a save needs: %w", key, err)
	}
	return warmOf(warm), nil
}

// Fits says whether a saved machine can be loaded here.
func (w warmSnapshots) Fits(ctx context.Context, compat string, size sandbox.Size) error {
	return w.machines.fits(ctx, compat, size)
}

// fitsHost refuses a size that this machine does not have, before minutes are
// spent on baking it.
func fitsHost(size sandbox.Size) error {
	var host syscall.Sysinfo_t
	if err := syscall.Sysinfo(&host); err != nil {
		return fmt.Errorf("ask the host for its memory: %w", err)
	}
	memoryMB := int(uint64(host.Totalram) * uint64(host.Unit) >> 20)
	switch {
	case size.CPUs > runtime.NumCPU():
		return tooLarge("cpu", runtime.NumCPU(), size.CPUs)
	case size.MemoryMB > memoryMB:
		return tooLarge("memory_mb", memoryMB, size.MemoryMB)
	}
	return nil
}

func tooLarge(path string, has, asked int) error {
	message := fmt.Sprintf("is %d; this server's machine has %d", asked, has)
	return &panda.Error{
		Code: api.CodeRequestInvalid, Message: path + " " + message,
		Fields: []api.FieldError{{Path: path, Message: message}},
	}
}
