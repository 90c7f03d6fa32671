package kernel

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"time"

	"pandastack/internal/guestproto"
)

// control requests of the kernel host.
type (
	configureRequest struct {
		Op  string            `json:"op"`
		Cwd string            `json:"cwd"`
		Env map[string]string `json:"env,omitempty"`
	}
	reseedRequest struct {
		Op   string `json:"op"`
		Seed []byte `json:"seed"`
	}
)

// claim turns a spare kernel into the one that req asks for.
func (k *kernel) claim(ctx context.Context, req guestproto.KernelRequest) error {
	k.mu.Lock()
	p, cwd := k.proc, k.cwd
	k.mu.Unlock()
	if p == nil {
		return errGone
	}
	select {
	case <-p.gone:
		return errGone
	default:
	}
	if req.Cwd != cwd || len(req.Env) > 0 { // else it is as asked for already
		if err := p.control(ctx, configureRequest{Op: "configure", Cwd: req.Cwd, Env: req.Env}); err != nil {
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.id, k.cwd, k.env, k.createdAt = req.ID, req.Cwd, req.Env, time.Now()
	return nil
}

func (m *Manager) kernel(id string) (*kernel, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.kernels[id]; k != nil {
		return k, nil
	}
	return nil, notFound(id)
}

// all returns the kernels, oldest first, and the spare.
func (m *Manager) all() (kernels []*kernel, spare *kernel) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.kernels {
		if k != nil {
			kernels = append(kernels, k)
		}
	}
	return kernels, m.spare
}

// List implements guestproto.Guest.Kernels.
func (m *Manager) List() []guestproto.Kernel {
	kernels, _ := m.all()
	list := make([]guestproto.Kernel, 0, len(kernels))
	for _, k := range kernels {
		list = append(list, k.describe())
	}
	slices.SortFunc(list, func(a, b guestproto.Kernel) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list
}

// Interrupt implements guestproto.Guest.InterruptKernel.
func (m *Manager) Interrupt(id string) error {
	k, err := m.kernel(id)
	if err != nil {
		return err
	}
	k.interrupt()
	return nil
}

// Delete implements guestproto.Guest.DeleteKernel.
func (m *Manager) Delete(id string) error {
	k, err := m.kernel(id)
	if err != nil {
		return err
	}
	k.remove()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kernels[id] == k {
		delete(m.kernels, id)
	}
	return nil
}

func (m *Manager) newCell(k *kernel, req guestproto.ExecuteRequest) *execution {
	return &execution{req: req, k: k, log: log{limit: m.cfg.LogLimit}}
}

// Execute implements guestproto.Guest.
func (m *Manager) Execute(ctx context.Context, kernel string, req guestproto.ExecuteRequest, sink func(guestproto.Event) error) error {
	if req.ID == "" || len(req.ID) > 128 || req.TimeoutMS < 0 || req.GraceMS < 0 {
		return guestproto.Errorf(guestproto.CodeInvalid, "execution: want an id of 1 to 128 bytes and no negative times")
	}
	x, isNew, err := m.cell(kernel, req)
	if err != nil {
		return err
	}
	if isNew {
		if err := x.k.enqueue(x); err != nil {
			m.forget(x)
			return err
		}
	}
	err = x.log.follow(ctx, 0, sink)
	if isNew && ctx.Err() != nil && x.k.cancel(x) {
		m.forget(x)
	}
	return err
}

// cell finds the execution with req's ID, or makes it.
func (m *Manager) cell(kernel string, req guestproto.ExecuteRequest) (x *execution, isNew bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x := m.cells[req.ID]; x != nil {
		return x, false, nil
	}
	k := m.kernels[kernel]
	if k == nil {
		return nil, false, notFound(kernel)
	}
	x = m.newCell(k, req)
	m.cells[req.ID] = x
	return x, true, nil
}

func (m *Manager) forget(x *execution) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cells[x.req.ID] == x {
		delete(m.cells, x.req.ID)
	}
}

// finished keeps x among the last finished ones.
func (m *Manager) finished(x *execution) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cells[x.req.ID] != x {
		return
	}
	m.finishes = append(m.finishes, x.req.ID)
	if len(m.finishes) > keepFinished {
		delete(m.cells, m.finishes[0])
		m.finishes = m.finishes[1:]
	}
}

// Events implements guestproto.Guest.
func (m *Manager) Events(ctx context.Context, execution string, after int64, sink func(guestproto.Event) error) error {
	x, err := m.execution(execution)
	if err != nil {
		return err
	}
	return x.log.follow(ctx, after, sink)
}

// Replay implements guestproto.Guest.
func (m *Manager) Replay(execution string, after int64, sink func(guestproto.Event) error) error {
	x, err := m.execution(execution)
	if err != nil {
		return err
	}
	return x.log.replay(after, sink)
}

func (m *Manager) execution(id string) (*execution, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x := m.cells[id]; x != nil {
		return x, nil
	}
	return nil, guestproto.Errorf(guestproto.CodeNotFound, "execution %.80q does not exist", id)
}

// Reseed gives every kernel fresh randomness of its own, derived from seed. A
// kernel that runs a cell gets it when that ends.
func (m *Manager) Reseed(ctx context.Context, seed []byte) error {
	kernels, spare := m.all()
	if spare != nil {
		kernels = append(kernels, spare)
	}
	var failed error
	for _, k := range kernels {
		failed = errors.Join(failed, k.reseed(ctx, seed))
	}
	return failed
}

func (k *kernel) reseed(ctx context.Context, seed []byte) error {
	k.mu.Lock()
	p, busy, id := k.proc, k.running != nil, k.id
	k.mu.Unlock()
	if p == nil {
		return nil
	}
	own := sha256.Sum256(append([]byte(id+"\x00"), seed...))
	req := reseedRequest{Op: "reseed", Seed: own[:]}
	if busy {
		return p.send("control_request", req, nil)
	}
	return p.control(ctx, req)
}
