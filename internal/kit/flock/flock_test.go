package flock

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
)

func TestExclusiveAndShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, err := Try(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Try(path); !errors.Is(err, ErrHeld) {
		t.Errorf("second Try = %v, want ErrHeld", err)
	}
	if _, err := TryShared(path); !errors.Is(err, ErrHeld) {
		t.Errorf("TryShared of a held lock = %v, want ErrHeld", err)
	}
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	a, err := AcquireShared(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Release()
	b, err := TryShared(path)
	if err != nil {
		t.Fatalf("second share: %v", err)
	}
	defer b.Release()
	if _, err := Try(path); !errors.Is(err, ErrHeld) {
		t.Errorf("Try of a shared lock = %v, want ErrHeld", err)
	}
}

func TestAcquireWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, err := Try(path)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		l, err := Acquire(t.Context(), path)
		if err == nil {
			err = l.Release()
		}
		got <- err
	}()
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestAcquireIsCancelled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, err := Try(path)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Acquire(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire = %v, want Canceled", err)
	}
}
