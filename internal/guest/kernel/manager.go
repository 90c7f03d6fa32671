// Package kernel runs Python kernels: processes forked from a warm host, their
// cells one after another, and every cell's events in a log that outlives the
// caller's connection.
package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pandastack/internal/guest/cgroup"
	"pandastack/internal/guest/reap"
	"pandastack/internal/guestproto"
)

// Defaults of Config.
const DefaultLogLimit = 256 << 20

// Config of a Manager.
type Config struct {
	// Command makes the kernel host's command; the manager adds descriptor 3.
	Command func() *exec.Cmd
	Cwd     string // of kernels that ask for none
	Reap    *reap.Table
	Groups  *cgroup.Tree
	// Adjust is called with each new host process, to make it a better victim
	// for the out-of-memory killer than the agent. It may be nil.
	Adjust func(pid int)
	// Other kernels than our own have specs in the kernels folders below
	// JupyterPath, and start with Env; "python" in a spec means Python.
	JupyterPath []string
	Python      string
	Env         []string
	SpillDir    string // where executions keep what does not fit into memory; "" is below the system's
	LogLimit    int64  // bytes of one execution's file; 0 is DefaultLogLimit
	Log         *slog.Logger
}

// Manager owns the kernels. Its methods may be called concurrently.
type Manager struct {
	cfg      Config
	log      *slog.Logger
	children *children

	hostMu sync.Mutex // held while a host is started
	host   *zygote
	groups int // names them

	warmMu sync.Mutex // one Warm at a time

	mu       sync.Mutex // after kernel.mu
	closed   bool
	kernels  map[string]*kernel // nil while it is being made
	spare    *kernel
	cells    map[string]*execution
	finishes []string // of cells, oldest first
	pending  int64    // bytes of code of the cells that have not ended
}

// New makes a manager. Its owner calls Close.
func New(cfg Config) *Manager {
	if cfg.LogLimit == 0 {
		cfg.LogLimit = DefaultLogLimit
	}
	if cfg.SpillDir == "" {
		cfg.SpillDir = filepath.Join(os.TempDir(), "pandastack")
	}
	if cfg.Adjust == nil {
		cfg.Adjust = func(int) {}
	}
	return &Manager{
		cfg: cfg, log: cfg.Log, children: newChildren(),
		kernels: map[string]*kernel{}, cells: map[string]*execution{},
	}
}

// zygote returns the live host, starting one if there is none.
func (m *Manager) zygote() (*zygote, error) {
	m.hostMu.Lock()
	defer m.hostMu.Unlock()
	if m.host != nil {
		select {
		case <-m.host.gone:
		default:
			return m.host, nil
		}
	}
	m.mu.Lock()
	closed := m.closed
	m.mu.Unlock()
	if closed {
		return nil, errGone
	}
	z, err := startZygote(m.cfg.Reap, m.cfg.Command(), m.children)
	if err != nil {
		return nil, err
	}
	m.cfg.Adjust(z.cmd.Process.Pid)
	m.host = z
	return z, nil
}

// fork makes a process in a group of its own.
func (m *Manager) fork(ctx context.Context, id, cwd string, env map[string]string) (*process, error) {
	p, err := m.forkOnce(ctx, zygoteCall{ID: id, Cwd: cwd, Env: env})
	if errors.Is(err, errHostEnded) { // it was killed, and the next one is another
		p, err = m.forkOnce(ctx, zygoteCall{ID: id, Cwd: cwd, Env: env})
	}
	if err != nil {
		return nil, err
	}
	if p.group, err = m.newGroup(); err == nil {
		err = p.group.Add(p.pid)
	}
	if err != nil {
		m.log.Warn("kernel runs outside a group", "error", err)
		_ = p.group.Remove()
		p.group = nil
	}
	if err := m.awaitReady(ctx, p); err != nil {
		_ = unix.Kill(p.pid, unix.SIGKILL)
		awaitExit(p, killLimit)
		_ = p.wire.close()
		_ = p.group.Remove()
		return nil, err
	}
	return p, nil
}

func (m *Manager) forkOnce(ctx context.Context, call zygoteCall) (*process, error) {
	z, err := m.zygote()
	if err != nil {
		return nil, err
	}
	p, err := z.fork(ctx, call)
	if errors.Is(err, errHostEnded) {
		z.stop() // returns when it was waited for
	}
	return p, err
}

// newGroup makes the group of one more kernel process.
func (m *Manager) newGroup() (*cgroup.Group, error) {
	m.hostMu.Lock()
	m.groups++
	name := fmt.Sprintf("kernel-%d", m.groups)
	m.hostMu.Unlock()
	return m.cfg.Groups.New(name)
}

func (m *Manager) awaitReady(ctx context.Context, p *process) error {
	stop := context.AfterFunc(ctx, func() { _ = p.wire.close() })
	err := p.ready()
	if !stop() {
		err = errors.Join(ctx.Err(), err)
	}
	return err
}

func (m *Manager) newKernel(id, name, cwd string, env map[string]string) *kernel {
	return &kernel{m: m, id: id, name: name, cwd: cwd, env: maps.Clone(env), createdAt: time.Now()}
}

// Warm implements guestproto.Guest.
func (m *Manager) Warm(ctx context.Context, req guestproto.WarmRequest) error {
	m.warmMu.Lock()
	defer m.warmMu.Unlock()
	if k := m.waiting(); k != nil && len(req.Imports)+len(req.Cells) == 0 {
		return m.exercise(ctx, k)
	}
	z, err := m.zygote()
	if err != nil {
		return err
	}
	a, err := z.call(ctx, zygoteCall{Op: "warm", Imports: req.Imports, Cells: req.Cells}, nil)
	if err != nil {
		return err
	}
	if len(a.Errors) > 0 {
		return guestproto.Errorf(guestproto.CodeInvalid, "warm: %s", strings.Join(a.Errors, "; "))
	}
	if m.HasSpare() {
		return nil
	}
	return m.makeSpare(ctx)
}

// spareID is what a kernel is called that nobody has claimed.
const spareID = "spare"

// makeSpare leaves a kernel that has run a cell, so that its first real one
// meets no code path for the first time.
func (m *Manager) makeSpare(ctx context.Context) error {
	k := m.newKernel(spareID, "", m.cfg.Cwd, nil)
	if _, err := k.ensure(); err != nil {
		return err
	}
	if err := m.exercise(ctx, k); err != nil {
		k.remove()
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spare = k
	return nil
}

// exercise runs a cell of which the kernel then forgets all: a machine that is
// restored, and a process that is forked, meet every code path and page for the first
// time, which is slow.
func (m *Manager) exercise(ctx context.Context, k *kernel) error {
	x := m.newCell(k, guestproto.ExecuteRequest{Code: "print(end=''); 1 + 1"})
	if err := k.enqueue(x); err != nil {
		return err
	}
	if err := x.log.follow(ctx, 0, func(guestproto.Event) error { return nil }); err != nil {
		return err
	}
	if x.done.Status != guestproto.StatusOK {
		return fmt.Errorf("spare kernel's first cell: %s", x.done.Status)
	}
	return k.forget(ctx)
}

// waiting is the warmed kernel that nobody has claimed yet.
func (m *Manager) waiting() *kernel {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spare
}

// HasSpare says whether a warmed kernel waits to be claimed.
func (m *Manager) HasSpare() bool { return m.waiting() != nil }

// maxKernels bounds the kernels of a machine, each of which takes 10 MB and more: a
// machine full of them has no memory left to fork another one or to end one.
const maxKernels = 32

// Create implements guestproto.Guest.CreateKernel.
func (m *Manager) Create(ctx context.Context, req guestproto.KernelRequest) (guestproto.Kernel, error) {
	if err := m.check(&req); err != nil {
		return guestproto.Kernel{}, err
	}
	sp, err := m.specOf(req)
	if err != nil {
		return guestproto.Kernel{}, err
	}
	m.mu.Lock()
	if _, taken := m.kernels[req.ID]; taken || m.closed {
		m.mu.Unlock()
		return guestproto.Kernel{}, guestproto.Errorf(guestproto.CodeExists, "kernel %.80q exists", req.ID)
	}
	if len(m.kernels) >= maxKernels {
		m.mu.Unlock()
		return guestproto.Kernel{}, guestproto.Errorf(guestproto.CodeLimit, "%d kernels are there, as many as may be", maxKernels)
	}
	m.kernels[req.ID] = nil
	var spare *kernel
	if sp == nil {
		spare, m.spare = m.spare, nil
	}
	m.mu.Unlock()

	k, err := m.start(ctx, spare, sp, req)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		delete(m.kernels, req.ID)
		return guestproto.Kernel{}, err
	}
	m.kernels[req.ID] = k
	return k.describe(), nil
}

// check fills in req's defaults.
func (m *Manager) check(req *guestproto.KernelRequest) error {
	if req.ID == "" || len(req.ID) > 128 {
		return guestproto.Errorf(guestproto.CodeInvalid, "kernel id: want 1 to 128 bytes")
	}
	if len(req.Name) > 128 {
		return guestproto.Errorf(guestproto.CodeInvalid, "kernel name: want at most 128 bytes")
	}
	if req.Cwd == "" {
		req.Cwd = m.cfg.Cwd
	}
	if st, err := os.Stat(req.Cwd); err != nil || !st.IsDir() {
		return guestproto.Errorf(guestproto.CodeNotFound, "working directory %.200q does not exist", req.Cwd)
	}
	return nil
}

// start makes the spare, if there is a live one, or a new kernel into what req
// asks for.
func (m *Manager) start(ctx context.Context, spare *kernel, sp *spec, req guestproto.KernelRequest) (*kernel, error) {
	if spare != nil {
		err := spare.claim(ctx, req)
		if err == nil {
			return spare, nil
		}
		m.log.Warn("claim spare kernel", "error", err)
		spare.remove()
	}
	k := m.newKernel(req.ID, req.Name, req.Cwd, req.Env)
	k.spec = sp
	if _, err := k.ensure(); err != nil {
		k.remove()
		return nil, err
	}
	return k, nil
}

// Close ends all kernels and their host.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	all := make([]*kernel, 0, len(m.kernels)+1)
	for _, k := range m.kernels {
		all = append(all, k)
	}
	all = append(all, m.spare)
	m.kernels, m.spare = map[string]*kernel{}, nil
	m.mu.Unlock()
	for _, k := range all {
		if k != nil {
			k.remove()
		}
	}
	m.hostMu.Lock()
	defer m.hostMu.Unlock()
	if m.host != nil {
		m.host.stop()
	}
}
