// Package store is the contract for what a server has to remember.
package store

import (
	"context"
	"errors"

	"pandastack/internal/panda"
)

// What a store refuses. Test with errors.Is. A full disk is syscall.ENOSPC.
var (
	ErrNotFound = errors.New("no such record")
	ErrExists   = errors.New("the record exists already")
	// ErrConflict's message names the status that was found and the one expected.
	ErrConflict = errors.New("the record's status is another")
)

// Store keeps records. Its methods may be called concurrently. What a write
// has acknowledged is there after a kill -9 and a power cut; a write that
// failed, or whose ctx ended, has either happened whole or not at all.
type Store interface {
	Sandboxes() Sandboxes
	Snapshots() Snapshots
	// Close waits for calls under way. The store is of no use afterwards.
	Close() error
}

// Sandboxes are the records of sandboxes, keyed by ID.
type Sandboxes interface {
	// Put adds a record; ErrExists if there is one with its ID.
	Put(ctx context.Context, sandbox panda.Sandbox) error
	// Get gives a record or ErrNotFound.
	Get(ctx context.Context, id string) (panda.Sandbox, error)
	// List gives all, the oldest first.
	List(ctx context.Context) ([]panda.Sandbox, error)
	// Update replaces the record as a whole if its status is from: else
	// ErrConflict, or ErrNotFound, and nothing has changed.
	Update(ctx context.Context, sandbox panda.Sandbox, from panda.Status) error
	// Delete removes a record. It is fine if there is none.
	Delete(ctx context.Context, id string) error
}

// Snapshots are the records of snapshots, keyed by ID; names are unique too.
type Snapshots interface {
	// Put adds a record; ErrExists if there is one with its ID or its name.
	Put(ctx context.Context, snapshot panda.Snapshot) error
	// List gives all, the oldest first.
	List(ctx context.Context) ([]panda.Snapshot, error)
	// Delete removes a record. It is fine if there is none.
	Delete(ctx context.Context, id string) error
}
