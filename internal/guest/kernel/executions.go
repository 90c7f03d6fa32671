package kernel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"pandastack/internal/guestproto"
)

// What a manager keeps of its cells.
const (
	keepFinished = 256
	keepSpilled  = 512 << 20 // bytes of disk of those that have ended
	maxPending   = 1024      // cells that have not ended
	maxPendCode  = 64 << 20  // bytes of their code
)

// Start implements guestproto.Guest.
func (m *Manager) Start(kernel string, req guestproto.ExecuteRequest) (guestproto.Execution, error) {
	x, err := m.queue(kernel, req)
	if err != nil {
		return guestproto.Execution{}, err
	}
	return x.describe(), nil
}

// Execute implements guestproto.Guest.
func (m *Manager) Execute(ctx context.Context, kernel string, req guestproto.ExecuteRequest, accepted func(), sink func(guestproto.Event) error) error {
	x, err := m.queue(kernel, req)
	if err != nil {
		return err
	}
	if req.Forget {
		defer m.drop(x)
	}
	if accepted != nil {
		accepted()
	}
	return x.log.follow(ctx, 0, sink)
}

// queue queues a cell, or finds the one that was queued before under its id.
func (m *Manager) queue(kernel string, req guestproto.ExecuteRequest) (*execution, error) {
	if req.ID == "" || len(req.ID) > 128 || len(req.Batch) > 128 || req.TimeoutMS < 0 || req.GraceMS < 0 {
		return nil, guestproto.Errorf(guestproto.CodeInvalid, "execution: want an id of 1 to 128 bytes, a batch of at most 128, and no negative times")
	}
	if req.Comm != nil {
		if err := checkComm(req.Comm); err != nil {
			return nil, err
		}
	}
	x, isNew, err := m.cell(kernel, req)
	if err != nil || !isNew {
		return x, err
	}
	if err := x.k.enqueue(x); err != nil {
		m.drop(x)
		return nil, err
	}
	return x, nil
}

// cell finds the execution with req's ID, or makes it.
func (m *Manager) cell(kernel string, req guestproto.ExecuteRequest) (x *execution, isNew bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x := m.cells[req.ID]; x != nil {
		if x.k.id != kernel || !x.same(req) {
			return nil, false, guestproto.Errorf(guestproto.CodeExists, "execution %.80q is another cell's", req.ID)
		}
		return x, false, nil
	}
	k := m.kernels[kernel]
	if k == nil {
		return nil, false, notFound(kernel)
	}
	if len(m.cells)-len(m.finishes) >= maxPending || m.pending+int64(len(input(req))) > maxPendCode {
		return nil, false, guestproto.Errorf(guestproto.CodeLimit, "%d cells wait, with %d bytes of code: as many as may", len(m.cells)-len(m.finishes), m.pending)
	}
	x = m.newCell(k, req)
	m.cells[req.ID] = x
	m.pending += int64(x.size)
	return x, true, nil
}

// drop forgets a cell, whether it has ended or not.
func (m *Manager) drop(x *execution) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cells[x.req.ID] != x {
		return
	}
	if n := slices.Index(m.finishes, x.req.ID); n >= 0 {
		m.finishes = slices.Delete(m.finishes, n, n+1)
	} else {
		m.pending -= int64(x.size)
	}
	delete(m.cells, x.req.ID)
	x.log.retire()
}

// finished keeps x among the last finished ones, as many as fit.
func (m *Manager) finished(x *execution) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cells[x.req.ID] != x {
		return
	}
	m.pending -= int64(x.size)
	m.finishes = append(m.finishes, x.req.ID)
	m.trimLocked()
}

// trim drops what does not fit any more because a finished cell printed.
func (m *Manager) trim() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trimLocked()
}

func (m *Manager) trimLocked() {
	spilled := int64(0)
	for n, id := range slices.Backward(m.finishes) {
		spilled += m.cells[id].log.spilled()
		if len(m.finishes)-n > keepFinished || spilled > keepSpilled && n < len(m.finishes)-1 {
			m.pruneLocked(n + 1)
			return
		}
	}
}

// pruneLocked drops the oldest n finished cells.
func (m *Manager) pruneLocked(n int) {
	for _, id := range m.finishes[:n] {
		m.cells[id].log.retire()
		delete(m.cells, id)
	}
	m.finishes = slices.Clone(m.finishes[n:])
}

// Executions implements guestproto.Guest.
func (m *Manager) Executions(kernel string) ([]guestproto.Execution, error) {
	m.mu.Lock()
	if kernel != "" && m.kernels[kernel] == nil {
		m.mu.Unlock()
		return nil, notFound(kernel)
	}
	cells := make([]*execution, 0, len(m.cells))
	for _, x := range m.cells {
		cells = append(cells, x)
	}
	m.mu.Unlock()
	list := make([]guestproto.Execution, 0, len(cells))
	for _, x := range cells {
		if d := x.describe(); kernel == "" || d.Kernel == kernel {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b guestproto.Execution) int {
		return cmp.Or(a.QueuedAt.Compare(b.QueuedAt), cmp.Compare(a.Position, b.Position), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// Execution implements guestproto.Guest.
func (m *Manager) Execution(id string) (guestproto.Execution, error) {
	x, err := m.execution(id)
	if err != nil {
		return guestproto.Execution{}, err
	}
	return x.describe(), nil
}

// Cancel implements guestproto.Guest.CancelExecution.
func (m *Manager) Cancel(id string) error {
	x, err := m.execution(id)
	if err != nil {
		return err
	}
	x.k.cancel(x)
	return nil
}

// Input implements guestproto.Guest.
func (m *Manager) Input(id, text string) error {
	x, err := m.execution(id)
	if err != nil {
		return err
	}
	x.k.mu.Lock()
	q := x.asks
	x.asks = nil // it is answered once
	x.k.mu.Unlock()
	if q == nil {
		return guestproto.Errorf(guestproto.CodeConflict, "execution %.80q does not ask for input", id)
	}
	return q.p.send("input_reply", struct {
		Value string `json:"value"`
	}{text}, nil)
}

// Events implements guestproto.Guest.
func (m *Manager) Events(ctx context.Context, execution string, after int64, sink func(guestproto.Event) error) error {
	x, err := m.execution(execution)
	if err != nil {
		return err
	}
	return x.log.follow(ctx, after, sink)
}

// Listen implements guestproto.Guest.
func (m *Manager) Listen(ctx context.Context, execution string, after int64, sink func(guestproto.Event) error) error {
	x, err := m.execution(execution)
	if err != nil {
		return err
	}
	return x.log.listen(ctx, after, sink)
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

// Restart implements guestproto.Guest.RestartKernel.
func (m *Manager) Restart(id string) error {
	k, err := m.kernel(id)
	if err != nil {
		return err
	}
	return k.restart()
}

// askLimit is how long an idle kernel may think about a question.
const askLimit = 15 * time.Second

// Ask implements guestproto.Guest.
func (m *Manager) Ask(ctx context.Context, id, kind string, content json.RawMessage) (json.RawMessage, error) {
	switch kind {
	case guestproto.AskComplete, guestproto.AskInspect, guestproto.AskIsComplete, guestproto.AskHistory:
	default:
		return nil, guestproto.Errorf(guestproto.CodeUnsupported, "no question %.40q", kind)
	}
	k, err := m.kernel(id)
	if err != nil {
		return nil, err
	}
	busy := guestproto.Errorf(guestproto.CodeBusy, "kernel %.80q runs a cell and answers no questions", id)
	k.mu.Lock()
	running := k.running != nil
	k.mu.Unlock()
	if running {
		return nil, busy
	}
	p, err := k.ensure()
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	reply, err := p.ask(limited, kind, content)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, busy // a cell was given to it meanwhile
	}
	if err != nil {
		return nil, err
	}
	if err := replyError(reply); err != nil { // a kernel's own fault, and no secret of the agent's
		return nil, guestproto.Errorf(guestproto.CodeRefused, "the kernel has no answer: %.200s", err)
	}
	return reply.Content, nil
}
