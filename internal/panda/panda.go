// Package panda holds the nouns of the product and the error a caller may see.
package panda

import (
	"errors"
	"time"

	"pandastack/api"
)

// Status of a sandbox.
type Status string

// The states a sandbox can be in.
const (
	Creating Status = "creating"
	Running  Status = "running"
	// Paused has its machine, which stands still.
	Paused Status = "paused"
	// Hibernated has no machine: memory and disk are in Saved.
	Hibernated Status = "hibernated"
	Stopping   Status = "stopping"
	Failed     Status = "failed"
)

// Sandbox is one microVM and what it was made from. It is what the store keeps.
type Sandbox struct {
	ID          string
	Template    string
	WarmKey     string // the warm snapshot it was started from
	CPU         int
	MemoryMB    int
	Status      Status
	Failure     string // why it is Failed
	CreatedAt   time.Time
	TTL         time.Duration // 0: until deleted
	TTLFrom     time.Time     // when TTL was set last; zero: at creation
	Persistent  bool
	Metadata    map[string]string
	Env         map[string]string
	Isolation   string
	Accelerator string
	Start       api.Start

	FromSnapshot string        // id of the snapshot it was made from
	ForkParent   string        // id of the sandbox it is a copy of
	ForkTree     string        // id of the call that made the copy
	IdleTimeout  time.Duration // 0: none
	OnTimeout    string        // what happens at the end of TTL or IdleTimeout: kill or hibernate
	AutoWake     bool
	Saved        string // id of the save that a Hibernated one wakes from
}

// What happens to a sandbox whose time is over.
const (
	OnTimeoutKill      = "kill"
	OnTimeoutHibernate = "hibernate"
)

// Seen is what a look at a sandbox gave: of one that runs what it uses, of a
// hibernated one what is on disk.
type Seen struct {
	Usage   *api.Usage
	Resumed *api.Resumed
	Saved   *api.Saved
}

// Snapshot is a sandbox at one moment, memory and disk, from which any number of
// sandboxes can be made. Its ID also names its save.
type Snapshot struct {
	ID          string
	Name        string // "" or unique
	SandboxID   string
	Template    string
	WarmKey     string // the warm snapshot it lies on
	CPU         int
	MemoryMB    int
	CreatedAt   time.Time
	Metadata    map[string]string
	Env         map[string]string
	MemoryBytes int64
	DiskBytes   int64
	PauseMS     float64
	TotalMS     float64
}

// ExpiresAt is when the sandbox's time to live ends, or the zero time: also for
// one that has hibernated, if that is all that would happen.
func (s Sandbox) ExpiresAt() time.Time {
	if s.TTL == 0 || s.Status == Hibernated && s.OnTimeout == OnTimeoutHibernate {
		return time.Time{}
	}
	if s.TTLFrom.IsZero() {
		return s.CreatedAt.Add(s.TTL)
	}
	return s.TTLFrom.Add(s.TTL)
}

// Error is what a caller may see. Its code is one of package api's; the cause
// goes to the log only.
type Error struct {
	Code       string
	Message    string
	Hint       string // "" takes the registry's
	Fields     []api.FieldError
	Detail     map[string]any
	RetryAfter time.Duration // 0: none
	Cause      error
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Message + ": " + e.Cause.Error()
	}
	return e.Message
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// CodeOf gives err's code, or api.Internal's when it carries none.
func CodeOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return "internal"
}
