// Package flock is a lock between processes that the kernel lets go of when
// its holder ends, however that happens.
package flock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// ErrHeld says that somebody else holds the lock.
var ErrHeld = errors.New("lock is held by another process")

// retry is how often a waiter looks; a blocking flock could not be cancelled.
const retry = 100 * time.Millisecond

// Lock is a held lock.
type Lock struct{ f *os.File }

// Acquire waits for the lock on path, a file it creates and never removes.
func Acquire(ctx context.Context, path string) (*Lock, error) {
	return acquire(ctx, path, syscall.LOCK_EX)
}

// AcquireShared is Acquire for holders that tolerate each other.
func AcquireShared(ctx context.Context, path string) (*Lock, error) {
	return acquire(ctx, path, syscall.LOCK_SH)
}

// Try takes the lock or fails with ErrHeld.
func Try(path string) (*Lock, error) { return try(path, syscall.LOCK_EX) }

// TryShared takes a share or fails with ErrHeld.
func TryShared(path string) (*Lock, error) { return try(path, syscall.LOCK_SH) }

func acquire(ctx context.Context, path string, how int) (*Lock, error) {
	for {
		l, err := try(path, how)
		if !errors.Is(err, ErrHeld) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(retry):
		}
	}
}

func try(path string, how int) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrHeld
		}
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return &Lock{f}, nil
}

// Release lets go of the lock.
func (l *Lock) Release() error { return l.f.Close() }
