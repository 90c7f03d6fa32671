package app

import (
	"context"
	"errors"
	"testing"
	"time"

	"pandastack/api"
	"pandastack/internal/panda"
	"pandastack/internal/sandbox"
)

func TestBuildOutlivesItsCaller(t *testing.T) {
	release, calls := make(chan struct{}), 0
	b := newBuilds(func(ctx context.Context, _ string, _ sandbox.Size) (sandbox.Warm, error) {
		calls++
		select {
		case <-release:
			return sandbox.Warm{Key: "k"}, nil
		case <-ctx.Done():
			return sandbox.Warm{}, ctx.Err()
		}
	})
	defer b.close()
	b.wait = time.Millisecond
	_, err := b.Ensure(t.Context(), "x", sandbox.Size{})
	var known *panda.Error
	if !errors.As(err, &known) || known.Code != api.CodeTemplateBuilding || known.RetryAfter == 0 {
		t.Fatalf("got %v, want template.building with a time to come again", err)
	}
	b.wait = time.Minute
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := b.Ensure(gone, "x", sandbox.Size{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the caller's own end", err)
	}
	close(release)
	if warm, err := b.Ensure(t.Context(), "x", sandbox.Size{}); err != nil || warm.Key != "k" {
		t.Errorf("got %+v, %v", warm, err)
	}
	if calls > 2 { // one, or two if the first had just ended
		t.Errorf("%d builds for one template", calls)
	}
}

func TestCloseStopsBuilds(t *testing.T) {
	ended := make(chan struct{})
	b := newBuilds(func(ctx context.Context, _ string, _ sandbox.Size) (sandbox.Warm, error) {
		<-ctx.Done()
		close(ended)
		return sandbox.Warm{}, ctx.Err()
	})
	b.wait = time.Millisecond
	if _, err := b.Ensure(t.Context(), "x", sandbox.Size{}); err == nil {
		t.Fatal("the build ended")
	}
	b.close()
	<-ended
	if _, err := b.Ensure(t.Context(), "x", sandbox.Size{}); panda.CodeOf(err) != api.CodeTemplateBuilding {
		t.Errorf("got %v after close", err)
	}
}

func TestSizesTheHostLacksAreRefused(t *testing.T) {
	if err := fitsHost(sandbox.Size{CPUs: 1, MemoryMB: 128}); err != nil {
		t.Errorf("a small one: %v", err)
	}
	for _, size := range []sandbox.Size{{CPUs: 64_000}, {MemoryMB: 1 << 30}} {
		if err := fitsHost(size); panda.CodeOf(err) != api.CodeRequestInvalid {
			t.Errorf("%+v: %v", size, err)
		}
	}
}
