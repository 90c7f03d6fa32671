package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/panda"
	"pandastack/internal/shim"
	"pandastack/internal/store"
)

// node is a Service on parts that can be told to fail.
type node struct {
	t       *testing.T
	cfg     Config
	svc     *Service
	records *records
	starter *starter
	ensure  func(context.Context, string) (Warm, error)
	opened  error // of Memory.Open
	jailed  error
	fits    error
	seed    string
	mu      sync.Mutex
	mapped  int // memories opened and not released
}

func newNode(t *testing.T, change ...func(*Config)) *node {
	t.Helper()
	dir := t.TempDir()
	seed := filepath.Join(dir, "seed.qcow2")
	if err := os.WriteFile(seed, []byte("empty overlay"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, seed: seed, records: &records{all: map[string]panda.Sandbox{}}, starter: &starter{machines: map[string]*machine{}}}
	n.ensure = func(_ context.Context, name string) (Warm, error) {
		if name != defaultTemplate {
			return Warm{}, &panda.Error{Code: api.CodeTemplateNotFound, Message: "no template " + name}
		}
		return Warm{Key: "warm", StatePath: seed, OverlaySeed: seed, CPUs: 1, MemoryMB: 1024}, nil
	}
	n.cfg = Config{
		Store: n.records, Starter: n.starter, Templates: n, Memory: n,
		RunsDir: filepath.Join(dir, "runs"), SavesDir: filepath.Join(dir, "saves"), LogsDir: filepath.Join(dir, "logs"),
		Jail: func(context.Context) (shim.Jail, error) { return shim.Jail{Enabled: true, Root: "/"}, n.jailed },
		UIDs: UIDs{First: 1000, Count: 100}, Log: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&n.cfg)
	}
	n.start()
	t.Cleanup(func() { n.close() })
	return n
}

// start starts a server on what the last one left.
func (n *node) start() {
	n.t.Helper()
	svc, err := New(n.cfg)
	if err != nil {
		n.t.Fatalf("New: %v", err)
	}
	if err := svc.Start(context.Background()); err != nil {
		n.t.Fatalf("Start: %v", err)
	}
	n.svc = svc
}

func (n *node) close() {
	n.t.Helper()
	if err := n.svc.Close(context.Background()); err != nil {
		n.t.Errorf("Close: %v", err)
	}
}

func (n *node) Ensure(ctx context.Context, name string, size Size) (Warm, error) {
	warm, err := n.ensure(ctx, name)
	if size != (Size{}) {
		warm.Key, warm.CPUs, warm.MemoryMB = fmt.Sprintf("%s %v", warm.Key, size), size.CPUs, size.MemoryMB
	}
	return warm, err
}

func (n *node) Stored(_ context.Context, key string) (Warm, error) {
	return Warm{Key: key, StatePath: n.seed, OverlaySeed: n.seed, CPUs: 1, MemoryMB: 1024}, nil
}

func (n *node) Fits(context.Context, string, Size) error { return n.fits }

func (n *node) Open(context.Context, Warm) (*os.File, func(), error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.opened != nil {
		return nil, nil, n.opened
	}
	n.mapped++
	return nil, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.mapped--
	}, nil
}

func (n *node) create() panda.Sandbox {
	n.t.Helper()
	sb, err := n.svc.Create(context.Background(), api.CreateSandbox{})
	if err != nil {
		n.t.Fatalf("Create: %v", err)
	}
	return sb
}

func (n *node) machine(id string) *machine {
	n.starter.mu.Lock()
	defer n.starter.mu.Unlock()
	return n.starter.machines[id]
}

func (n *node) lastSpec() shim.Spec {
	n.starter.mu.Lock()
	defer n.starter.mu.Unlock()
	return n.starter.specs[len(n.starter.specs)-1]
}

// nothingLeft says what a sandbox should have taken with it.
func (n *node) nothingLeft() {
	n.t.Helper()
	if all, _ := n.svc.List(context.Background()); len(all) != 0 {
		n.t.Errorf("sandboxes left: %v", all)
	}
	if all, _ := n.records.List(context.Background()); len(all) != 0 {
		n.t.Errorf("records left: %v", all)
	}
	for _, dir := range []string{n.cfg.RunsDir, n.cfg.SavesDir} {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != 0 {
			n.t.Errorf("folders left: %v, %v", left, err)
		}
	}
	for id, m := range n.starter.machines {
		if m.alive() {
			n.t.Errorf("machine %s is left", id)
		}
	}
	if n.mapped != 0 || len(n.svc.uids) != 0 {
		n.t.Errorf("left: %d memories, user ids %v", n.mapped, n.svc.uids)
	}
}

// records is a store in memory.
type records struct {
	mu               sync.Mutex
	all              map[string]panda.Sandbox
	put, update, del error
	snapshots        snapshots
}

func (r *records) Sandboxes() store.Sandboxes { return r }
func (r *records) Snapshots() store.Snapshots { return &r.snapshots }
func (r *records) Close() error               { return nil }

// snapshots are a store's.
type snapshots struct {
	mu  sync.Mutex
	all []panda.Snapshot
	put error
}

func (r *snapshots) Put(_ context.Context, sn panda.Snapshot) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.put != nil {
		return r.put
	}
	r.all = append(r.all, sn)
	return nil
}

func (r *snapshots) List(context.Context) ([]panda.Snapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all), nil
}

func (r *snapshots) Delete(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = slices.DeleteFunc(r.all, func(sn panda.Snapshot) bool { return sn.ID == id })
	return nil
}

func (r *records) Put(ctx context.Context, sb panda.Sandbox) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := cmp.Or(r.put, ctx.Err()); err != nil {
		return err
	}
	if _, ok := r.all[sb.ID]; ok {
		return store.ErrExists
	}
	r.all[sb.ID] = sb
	return nil
}

func (r *records) Get(_ context.Context, id string) (panda.Sandbox, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sb, ok := r.all[id]
	if !ok {
		return sb, store.ErrNotFound
	}
	return sb, nil
}

func (r *records) List(context.Context) ([]panda.Sandbox, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.all)), nil
}

func (r *records) Update(ctx context.Context, sb panda.Sandbox, from panda.Status) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := cmp.Or(r.update, ctx.Err()); err != nil {
		return err
	}
	old, ok := r.all[sb.ID]
	if !ok {
		return store.ErrNotFound
	}
	if old.Status != from {
		return fmt.Errorf("%w: %s, expected %s", store.ErrConflict, old.Status, from)
	}
	r.all[sb.ID] = sb
	return nil
}

func (r *records) Delete(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.del != nil {
		return r.del
	}
	delete(r.all, id)
	return nil
}

func (r *records) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// starter makes machines that are nothing but their state.
type starter struct {
	mu       sync.Mutex
	machines map[string]*machine // by id, the dead ones too
	specs    []shim.Spec
	reaped   []string
	launch   func(context.Context, shim.Spec) error
	state    error
	cont     error
	capture  error
	closeErr error
}

func (s *starter) Launch(ctx context.Context, spec shim.Spec, _ *os.File) (shim.Machine, error) {
	if s.launch != nil {
		if err := s.launch(ctx, spec); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &machine{starter: s, spec: spec, done: make(chan struct{}), guest: &guest{born: time.Now()}}
	s.machines[spec.ID] = m
	s.specs = append(s.specs, spec)
	return m, nil
}

func (s *starter) Adopt(ctx context.Context, dir string) (shim.Machine, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.machines[filepath.Base(dir)]
	if m == nil || !m.alive() {
		return nil, errors.New("no shim")
	}
	return m, nil
}

func (s *starter) Reap(_ context.Context, dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closeErr != nil {
		return s.closeErr
	}
	s.reaped = append(s.reaped, filepath.Base(dir))
	if m := s.machines[filepath.Base(dir)]; m != nil {
		m.die("reaped")
	}
	return nil
}

type machine struct {
	starter *starter
	guest   *guest
	spec    shim.Spec
	stopped bool
	once    sync.Once
	done    chan struct{}
	why     string
	resumed []guestproto.ResumeRequest // of each Cont
}

func (m *machine) alive() bool {
	select {
	case <-m.done:
		return false
	default:
		return true
	}
}

func (m *machine) die(why string) {
	m.once.Do(func() {
		m.why = why
		close(m.done)
	})
}

func (m *machine) Guest() guestproto.Guest { return m.guest }
func (m *machine) State(context.Context) (shim.State, error) {
	steps := []guestproto.Step{{Name: "vmm", MS: 0.001}}
	m.starter.mu.Lock()
	defer m.starter.mu.Unlock()
	phase := shim.PhaseRunning
	if m.stopped {
		phase = shim.PhaseStopped
	}
	return shim.State{Phase: phase, Lowest: m.spec.Lowest, Isolated: true, Accel: "tcg", Steps: steps}, m.starter.state
}
func (m *machine) Stop(context.Context) error { m.setStopped(true); return nil }
func (m *machine) setStopped(stopped bool) {
	m.starter.mu.Lock()
	defer m.starter.mu.Unlock()
	m.stopped = stopped
}

// Capture writes files that say what they are of.
func (m *machine) Capture(_ context.Context, req shim.CaptureRequest) (shim.Capture, error) {
	if m.starter.capture != nil {
		return shim.Capture{}, m.starter.capture
	}
	m.setStopped(req.Last)
	got := shim.Capture{Layers: []string{shim.BaseLayer}, MemoryBytes: 4096, DiskBytes: 5, PauseMS: 1, TotalMS: 2}
	var errs []error
	for _, name := range []string{shim.StateFile, shim.DiskFile, shim.BaseLayer} {
		errs = append(errs, os.WriteFile(filepath.Join(req.Dir, name), []byte(m.spec.ID), 0o600))
	}
	got.Sums = map[string]string{}
	for _, name := range []string{shim.StateFile, shim.DiskFile} {
		sum, err := shim.Checksum(filepath.Join(req.Dir, name))
		got.Sums[name], errs = sum, append(errs, err)
	}
	return got, errors.Join(errs...)
}
func (m *machine) Cont(_ context.Context, req guestproto.ResumeRequest) (guestproto.ResumeReport, error) {
	m.starter.mu.Lock()
	defer m.starter.mu.Unlock()
	m.resumed = append(m.resumed, req)
	m.stopped = m.starter.cont != nil
	return guestproto.ResumeReport{}, m.starter.cont
}
func (m *machine) Save(context.Context, string, string) (shim.State, error) {
	return shim.State{}, errors.New("not here")
}
func (m *machine) Close(context.Context) error {
	m.starter.mu.Lock()
	err := m.starter.closeErr
	m.starter.mu.Unlock()
	if err == nil {
		m.die("closed")
	}
	return err
}
func (m *machine) ChangedBytes(context.Context) (int64, error) { return 4096, nil }
func (m *machine) Done() <-chan struct{}                       { return m.done }
func (m *machine) Failure() string                             { <-m.done; return m.why }

// guest answers with what a test puts into it.
type guest struct {
	guestproto.Guest // nil: what no test calls
	kernel           guestproto.KernelRequest
	execute          func(context.Context, guestproto.ExecuteRequest, func(guestproto.Event) error) error
	replay, listen   func(func(guestproto.Event) error) error
	described        guestproto.Execution
	exec             func(context.Context, guestproto.ExecRequest, func(guestproto.ExecEvent) error) error
	write            func(io.Reader) (guestproto.FileInfo, error)
	read             func(context.Context) (guestproto.FileInfo, io.ReadCloser, error)
	statErr          error
	busy             atomic.Bool  // its kernel
	cpuPermille      atomic.Int64 // of one CPU
	born             time.Time
}

func (g *guest) CreateKernel(_ context.Context, req guestproto.KernelRequest) (guestproto.Kernel, error) {
	g.kernel = req
	language := cmp.Or(req.Language, "python")
	if language != "python" {
		return guestproto.Kernel{}, &guestproto.Error{Code: guestproto.CodeUnsupported, Message: "no kernel for " + req.Language}
	}
	return guestproto.Kernel{ID: req.ID, Language: language, State: guestproto.KernelIdle}, nil
}

func (g *guest) Warm(context.Context, guestproto.WarmRequest) error { return nil }

func (g *guest) Kernels(context.Context) ([]guestproto.Kernel, error) {
	state := guestproto.KernelIdle
	if g.busy.Load() {
		state = guestproto.KernelBusy
	}
	return []guestproto.Kernel{{ID: "k1", State: state}}, nil
}

func (g *guest) Execute(ctx context.Context, _ string, req guestproto.ExecuteRequest, _ func(), sink func(guestproto.Event) error) error {
	if g.execute == nil {
		return nil
	}
	return g.execute(ctx, req, sink)
}

func (g *guest) DeleteKernel(context.Context, string) error { return nil }

func (g *guest) ReleaseKernel(context.Context, string) error { return nil }

func (g *guest) Replay(_ context.Context, _ string, _ int64, sink func(guestproto.Event) error) error {
	return g.replay(sink)
}

func (g *guest) Listen(_ context.Context, _ string, _ int64, sink func(guestproto.Event) error) error {
	return g.listen(sink)
}

func (g *guest) Execution(context.Context, string) (guestproto.Execution, error) {
	return g.described, nil
}

func (g *guest) Events(_ context.Context, _ string, after int64, sink func(guestproto.Event) error) error {
	return g.replay(func(e guestproto.Event) error {
		if e.Seq <= after {
			return nil
		}
		return sink(e)
	})
}

func (g *guest) Exec(ctx context.Context, req guestproto.ExecRequest, sink func(guestproto.ExecEvent) error) error {
	return g.exec(ctx, req, sink)
}

func (g *guest) WriteFile(_ context.Context, req guestproto.WriteRequest, body io.Reader) (guestproto.FileInfo, error) {
	info, err := g.write(body)
	info.Path = req.Path
	return info, err
}

func (g *guest) ReadFile(ctx context.Context, _ string) (guestproto.FileInfo, io.ReadCloser, error) {
	return g.read(ctx)
}

func (g *guest) Stat(context.Context, string) (guestproto.FileInfo, error) {
	return guestproto.FileInfo{Name: "a"}, g.statErr
}
