// Package sandbox is the life of the sandboxes on this node: making them from
// warm snapshots, running cells, processes and files in them, noticing when
// their machine ends, and removing them.
package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"pandastack/api"
	"pandastack/internal/panda"
	"pandastack/internal/shim"
	"pandastack/internal/store"
)

// Warm is a template's warm snapshot and what a machine started from it needs.
type Warm struct {
	Key                     string // names the snapshot
	MemoryPath, StatePath   string
	Base, UpperRaw          string // raw images
	OverlaySeed             string // an empty qcow2 on UpperRaw, copied for each sandbox
	Kernel, Initrd, Cmdline string
	CPUs, MemoryMB          int
	CompatKey               string // what it fits (design §4.3); whoever gives a Warm has compared it
}

// Size is what a sandbox has of CPUs and memory; what is 0 is as the template says.
type Size struct {
	CPUs, MemoryMB int
}

// Templates gives the warm snapshots.
type Templates interface {
	// Ensure gives the warm snapshot of a template in one size, baking it first if
	// it must. What a caller may see of a failure is a *panda.Error.
	Ensure(ctx context.Context, name string, size Size) (Warm, error)
	// Stored gives a warm snapshot by its key, also one that its template no longer
	// uses: something that was saved lies on it.
	Stored(ctx context.Context, key string) (Warm, error)
	// Fits says whether a device state of this compatibility key loads here into a
	// machine of size; if not, it gives snapshot.host_mismatch.
	Fits(ctx context.Context, compat string, size Size) error
}

// Memory gives the memory of warm snapshots, sealed and shared by all machines
// of the node; zeros, where a Warm has no MemoryPath. The service calls release
// once the machine has mapped the file.
type Memory interface {
	Open(ctx context.Context, warm Warm) (memory *os.File, release func(), err error)
}

// UIDs is a range of user ids, one for each machine that runs.
type UIDs struct {
	First, Count int
}

// Limits of a node. Zero values take the defaults given.
type Limits struct {
	Sandboxes int // with a machine, at one time; 0: as many as there are UIDs
	// MemoryMB is what the machines may use together, each reckoned as PrivateMB,
	// or as its template's whole memory where that is 0. 0: no limit.
	MemoryMB  int
	PrivateMB int
	// ReserveMB is what must stay available on the host when another machine starts;
	// it is looked at where Config.HostMemory is given.
	ReserveMB int
	// SpareIdle is for how long nobody must have used a sandbox for it to hibernate
	// when the node is full; 0: a minute.
	SpareIdle time.Duration

	StreamBytes int   // of a cell's stdout, and of its stderr, in an answer that asks for no other; 0: 64 KiB
	ResultBytes int64 // of a cell's results together; 0: 64 MiB
	ExecBytes   int   // of a process's stdout, and of its stderr; 0: 8 MiB
}

// Config is what a Service is built from.
type Config struct {
	Store     store.Store
	Starter   shim.Starter
	Templates Templates
	Memory    Memory
	RunsDir   string // one folder per machine; made by Start, mode 0700
	SavesDir  string // one folder per hibernated sandbox and snapshot, on the file system of RunsDir
	// LogsDir keeps the logs of the latest starts that failed; "" keeps none.
	LogsDir string
	// Jail gives what all machines' jails share. The service adds the user.
	Jail   func(ctx context.Context) (shim.Jail, error)
	UIDs   UIDs
	Limits Limits
	// HostMemory gives what the host has available, in bytes; nil: it is not looked at.
	HostMemory func() (int64, error)
	Pool       Pool
	// EndOnClose deletes all sandboxes in Close. Otherwise they go on without
	// the server, and the next one's Start finds them again.
	EndOnClose bool
	Log        *slog.Logger
	Observer   Observer         // nil: none
	Now        func() time.Time // nil: time.Now
}

// Validate names the key that is wrong.
func (c *Config) Validate() error {
	var errs []error
	require := func(ok bool, message string) {
		if !ok {
			errs = append(errs, errors.New("sandbox: "+message))
		}
	}
	require(c.Store != nil, "Store is missing")
	require(c.Starter != nil, "Starter is missing")
	require(c.Templates != nil, "Templates is missing")
	require(c.Memory != nil, "Memory is missing")
	require(filepath.IsAbs(c.RunsDir), "RunsDir must be an absolute path")
	require(filepath.IsAbs(c.SavesDir), "SavesDir must be an absolute path")
	require(c.LogsDir == "" || filepath.IsAbs(c.LogsDir), "LogsDir must be an absolute path")
	require(c.Jail != nil, "Jail is missing")
	require(c.UIDs.Count >= 0 && (c.UIDs.Count == 0 || c.UIDs.First > 0), "UIDs must not start at root")
	require(c.Pool.Max >= 0 && c.Pool.MemoryMB >= 0, "Pool must not be negative")
	require(c.Limits.Sandboxes >= 0 && c.Limits.MemoryMB >= 0 && c.Limits.PrivateMB >= 0 && c.Limits.ReserveMB >= 0, "Limits must not be negative")
	require(c.Limits.StreamBytes >= 0 && c.Limits.ResultBytes >= 0 && c.Limits.ExecBytes >= 0, "Limits must not be negative")
	return errors.Join(errs...)
}

// Service is the sandboxes of a node. Its methods may be called concurrently,
// after Start. Errors that a caller may see are *panda.Error.
type Service struct {
	cfg     Config
	records store.Sandboxes
	closing chan struct{} // closed by Close
	retime  chan struct{} // tells the expiry loop that a deadline is new
	work    sync.WaitGroup

	mu     sync.Mutex // guards what follows and the fields of every live below its own
	closed bool       // Close was called: no new sandboxes
	sealed bool       // Close waits: no new goroutines
	live   map[string]*live
	uids   map[int]bool // those in use
	pool   pool
}

// live is a sandbox of this node, with or without a machine.
type live struct {
	id, dir string
	env     map[string]string
	use     use

	// turn is held by the operation under way: one at a time changes what the
	// machine is. It comes before transit.
	turn chan struct{}

	// transit is held over a change of status and its write to the store, so
	// that the store sees them in order. It comes before Service.mu.
	transit sync.Mutex

	// Guarded by Service.mu.
	record   panda.Sandbox
	machine  shim.Machine
	uid      int // 0: none
	memoryMB int // what it counts for while it has room
	room     bool
	create   *creation     // not nil until Create is done
	deletion *deletion     // not nil once a deletion has begun
	moving   chan struct{} // not nil while an operation changes the status: closed at its end
	looking  bool          // it is being looked at whether it is idle
	notAgain time.Time     // an expired one whose deletion failed is left alone until then

	// ended is done once the machine is gone; the next one has another. A context and not a channel, so
	// that calls hook on to it without a goroutine each.
	ended context.Context
	end   context.CancelFunc
}

type creation struct {
	cancel context.CancelCauseFunc
	done   chan struct{}
}

type deletion struct {
	done chan struct{}
	err  error
}

// New makes a Service. It does nothing before Start.
func New(cfg Config) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Observer == nil {
		cfg.Observer = unobserved{}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Limits = cfg.Limits.withDefaults()
	return &Service{
		cfg:     cfg,
		records: cfg.Store.Sandboxes(),
		closing: make(chan struct{}),
		retime:  make(chan struct{}, 1),
		live:    make(map[string]*live),
		uids:    make(map[int]bool),
		pool:    newPool(cfg.Pool.First),
	}, nil
}

func (l Limits) withDefaults() Limits {
	if l.StreamBytes == 0 {
		l.StreamBytes = 64 << 10
	}
	if l.ResultBytes == 0 {
		l.ResultBytes = 64 << 20
	}
	if l.SpareIdle == 0 {
		l.SpareIdle = time.Minute
	}
	if l.ExecBytes == 0 {
		l.ExecBytes = 8 << 20
	}
	return l
}

func (s *Service) newLive(id string) *live {
	l := &live{id: id, dir: filepath.Join(s.cfg.RunsDir, id), use: use{now: s.cfg.Now, last: s.cfg.Now()}, turn: make(chan struct{}, 1)}
	l.ended, l.end = context.WithCancel(context.Background())
	return l
}

// disk is the file of its machine's disk.
func (l *live) disk() string { return filepath.Join(l.dir, overlayFile) }

// Get gives a sandbox, or sandbox.not_found.
func (s *Service) Get(_ context.Context, id string) (panda.Sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.live[id]
	if l == nil {
		return panda.Sandbox{}, notFound(id)
	}
	return l.record, nil
}

// List gives all sandboxes, the oldest first.
func (s *Service) List(context.Context) ([]panda.Sandbox, error) {
	s.mu.Lock()
	all := make([]panda.Sandbox, 0, len(s.live))
	for _, l := range s.live {
		all = append(all, l.record)
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b panda.Sandbox) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

func notFound(id string) error {
	return &panda.Error{Code: api.CodeSandboxNotFound, Message: fmt.Sprintf("no sandbox has the id %q", id)}
}
