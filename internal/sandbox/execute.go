package sandbox

import (
	"context"
	"errors"
	"slices"
	"sync"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/kit/ids"
	"pandastack/internal/panda"
)

// Execute runs a cell and returns when it is done; a cell that raises or runs
// into its limit is no error. The agent keeps the cell going when ctx ends.
func (s *Service) Execute(ctx context.Context, id, contextID string, req api.Execute) (api.Execution, error) {
	limit, err := checkSeconds(req.TimeoutSeconds)
	if err != nil {
		return api.Execution{}, err
	}
	if err := checkExecutionID(req.ID); err != nil {
		return api.Execution{}, err
	}
	if req.ID == "" {
		req.ID = ids.New()
	}
	out := newCollector(s.cfg.Limits)
	var known ran
	err = s.call(ctx, id, aboutContext, func(ctx context.Context, l *live, g guestproto.Guest) error {
		known = l.execs.add(req.ID, ran{context: contextID, limit: req.TimeoutSeconds})
		err := g.Execute(ctx, contextID, guestproto.ExecuteRequest{ID: req.ID, Code: req.Code, TimeoutMS: limit}, out.add)
		if err == nil {
			err = l.execs.finish(req.ID, out)
		}
		return err
	})
	if err != nil {
		return api.Execution{}, withOutput(err, out)
	}
	ex := out.execution(req.ID, known)
	s.observeCell(id, ex)
	return ex, nil
}

// Execution gives an execution by its id: all of it when it is done, or what
// there is so far.
func (s *Service) Execution(ctx context.Context, id, executionID string) (api.Execution, error) {
	out := newCollector(s.cfg.Limits)
	var known ran
	err := s.call(ctx, id, aboutExecution, func(ctx context.Context, l *live, g guestproto.Guest) error {
		known = l.execs.get(executionID)
		return g.Replay(ctx, executionID, 0, out.add)
	})
	if err != nil {
		return api.Execution{}, err
	}
	return out.execution(executionID, known), nil
}

// withOutput adds to a broken call's error what the cell had printed.
func withOutput(err error, out *collector) error {
	var known *panda.Error
	if errors.As(err, &known) && known.Code == api.CodeSandboxFailed {
		stdout, stderr := out.streams()
		known.Detail = map[string]any{"stdout": stdout, "stderr": stderr}
	}
	return err
}

// ledger remembers what the agent's event log does not say about the latest
// executions. It is lost with the server, and what it adds with it.
type ledger struct {
	mu    sync.Mutex
	known map[string]ran
	order []string
}

type ran struct {
	context string
	limit   float64 // seconds; 0: none
	done    bool
}

const maxRan = 256 // as many as an agent keeps

// add gives the entry that was there already, if one was: the call attaches.
func (l *ledger) add(id string, r ran) ran {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, ok := l.known[id]; ok {
		return old
	}
	if l.known == nil {
		l.known = make(map[string]ran)
	}
	if len(l.order) == maxRan {
		delete(l.known, l.order[0])
		l.order = slices.Delete(l.order, 0, 1)
	}
	l.known[id] = r
	l.order = append(l.order, id)
	return r
}

// finish notes that an execution is done. An answer that ended without saying
// so is the agent's fault.
func (l *ledger) finish(id string, out *collector) error {
	if out.done == nil {
		return errors.New("the agent ended an execution's events without the last one")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, ok := l.known[id]; ok {
		r.done = true
		l.known[id] = r
	}
	return nil
}

func (l *ledger) get(id string) ran {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[id]
}
