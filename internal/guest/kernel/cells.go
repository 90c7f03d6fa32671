package kernel

import (
	"context"
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
	forgetRequest struct {
		Op string `json:"op"`
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
	k.id, k.name, k.cwd, k.env, k.createdAt = req.ID, req.Name, req.Cwd, req.Env, time.Now()
	return nil
}

// forget makes the next cell of an idle kernel its first.
func (k *kernel) forget(ctx context.Context) error {
	k.mu.Lock()
	p := k.proc
	k.forgetLocked()
	k.count = 0
	k.mu.Unlock()
	if p == nil {
		return errGone
	}
	return p.control(ctx, forgetRequest{Op: "forget"})
}

// rehearsed says why an idle kernel is not as the spare was when it was claimed, if it
// is not.
func (k *kernel) rehearsed() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.running != nil || len(k.queue) > 0:
		return guestproto.Errorf(guestproto.CodeBusy, "kernel %.80q runs a cell", k.id)
	case k.spec != nil || k.proc == nil || k.restarts > 0 || k.cwd != k.m.cfg.Cwd || len(k.env) > 0:
		return guestproto.Errorf(guestproto.CodeConflict, "kernel %.80q is not as it was when it was claimed", k.id)
	}
	return nil
}

// Release implements guestproto.Guest.ReleaseKernel.
func (m *Manager) Release(ctx context.Context, id string) error {
	k, err := m.kernel(id)
	if err != nil {
		return err
	}
	if err := k.rehearsed(); err != nil {
		return err
	}
	if m.HasSpare() {
		return guestproto.Errorf(guestproto.CodeConflict, "another kernel waits")
	}
	if err := k.forget(ctx); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.spare != nil || m.kernels[id] != k || k.deleted {
		return guestproto.Errorf(guestproto.CodeConflict, "kernel %.80q is no longer as it was", id)
	}
	delete(m.kernels, id)
	k.id, k.name, m.spare = spareID, "", k
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
