package sandbox

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/kit/ids"
	"pandastack/internal/panda"
)

// Execute runs a cell and returns when it is done; a cell that raises or runs
// into its limit is no error. The agent keeps the cell going when ctx ends.
func (s *Service) Execute(ctx context.Context, id, contextID string, req api.Execute) (api.Execution, error) {
	cell, err := cellOf(&req)
	if err != nil {
		return api.Execution{}, err
	}
	out := newCollector(s.cfg.Limits, req.Output)
	err = s.call(ctx, id, aboutContext, func(ctx context.Context, _ *live, g guestproto.Guest) error {
		err := g.Execute(ctx, contextID, cell, nil, out.add)
		if err == nil && out.done == nil {
			err = errNoEnd
		}
		return err
	})
	if err != nil {
		return api.Execution{}, withOutput(err, out)
	}
	ex := out.execution(req.ID, ran{contextID, req.TimeoutSeconds})
	s.observeCell(id, ex)
	return ex, nil
}

// errNoEnd is the agent's fault.
var errNoEnd = errors.New("the agent ended an execution's events without the last one")

// cellOf checks a request, gives it an id where it has none, and gives what the
// agent is to be told.
func cellOf(req *api.Execute) (guestproto.ExecuteRequest, error) {
	limit, err := checkSeconds(req.TimeoutSeconds)
	if err != nil {
		return guestproto.ExecuteRequest{}, err
	}
	if err := errors.Join(checkExecutionID(req.ID), checkBudget(req.Output)); err != nil {
		return guestproto.ExecuteRequest{}, err
	}
	if len(req.Batch) > 128 {
		return guestproto.ExecuteRequest{}, invalid("batch", "has at most 128 bytes")
	}
	comm, err := commOf(req.Comm)
	if err != nil {
		return guestproto.ExecuteRequest{}, err
	}
	if req.ID == "" {
		req.ID = ids.New()
	}
	return guestproto.ExecuteRequest{
		ID: req.ID, Code: req.Code, Comm: comm, TimeoutMS: limit, AllowStdin: req.AllowStdin,
		StopOnError: req.StopOnError, Batch: req.Batch,
	}, nil
}

// commOf checks a message to a comm; nil is none.
func commOf(c *api.Comm) (*guestproto.Comm, error) {
	if c == nil {
		return nil, nil
	}
	for n, buffer := range c.Buffers {
		if _, err := base64.StdEncoding.DecodeString(buffer); err != nil {
			return nil, invalid(fmt.Sprintf("comm.buffers[%d]", n), "is not base64: "+err.Error())
		}
	}
	data, err := json.Marshal(c.Data)
	if err != nil {
		return nil, invalid("comm.data", err.Error())
	}
	if c.Data == nil {
		data = []byte("{}")
	}
	return &guestproto.Comm{
		MsgType: c.MsgType, CommID: c.CommID, TargetName: c.TargetName, TargetModule: c.TargetModule,
		Data: data, Metadata: c.Metadata, Buffers: c.Buffers,
	}, nil
}

func checkBudget(o *api.OutputBudget) error {
	if o == nil || o.StreamBytes >= 0 && o.StreamBytes <= 16<<20 && o.ResultBytes >= 0 && o.ResultBytes <= 64<<20 {
		return nil
	}
	return invalid("output", "stream_bytes are 0 to 16777216, result_bytes 0 to 67108864")
}

// Queue puts a cell into its context's queue and returns at once.
func (s *Service) Queue(ctx context.Context, id, contextID string, req api.Execute) (api.ExecutionInfo, error) {
	cell, err := cellOf(&req)
	if err != nil {
		return api.ExecutionInfo{}, err
	}
	var x guestproto.Execution
	err = s.call(ctx, id, aboutContext, func(ctx context.Context, _ *live, g guestproto.Guest) (err error) {
		x, err = g.Start(ctx, contextID, cell)
		return err
	})
	return infoOf(x), err
}

// Execution gives an execution by its id: all of it when it is done, or what
// there is so far.
func (s *Service) Execution(ctx context.Context, id, executionID string, o *api.OutputBudget) (api.Execution, error) {
	if err := checkBudget(o); err != nil {
		return api.Execution{}, err
	}
	out := newCollector(s.cfg.Limits, o)
	var x guestproto.Execution
	err := s.call(ctx, id, aboutExecution, func(ctx context.Context, _ *live, g guestproto.Guest) (err error) {
		if x, err = g.Execution(ctx, executionID); err != nil {
			return err
		}
		return g.Replay(ctx, executionID, 0, out.add)
	})
	if err != nil {
		return api.Execution{}, err
	}
	info := infoOf(x)
	ex := out.execution(executionID, ran{info.ContextID, info.TimeoutSeconds})
	if out.done == nil && x.Status == guestproto.StatusQueued {
		ex.Status = x.Status
	}
	ex.Input = info.Input
	return ex, nil
}

// Executions lists a context's cells, the oldest first.
func (s *Service) Executions(ctx context.Context, id, contextID string) ([]api.ExecutionInfo, error) {
	var all []api.ExecutionInfo
	err := s.call(ctx, id, aboutContext, func(ctx context.Context, _ *live, g guestproto.Guest) error {
		cells, err := g.Executions(ctx, contextID)
		for _, x := range cells {
			all = append(all, infoOf(x))
		}
		return err
	})
	return all, err
}

// CancelExecution takes a cell out of its context's queue, or interrupts it.
func (s *Service) CancelExecution(ctx context.Context, id, executionID string) error {
	return s.call(ctx, id, aboutExecution, func(ctx context.Context, _ *live, g guestproto.Guest) error {
		return g.CancelExecution(ctx, executionID)
	})
}

// Input answers what a cell asks.
func (s *Service) Input(ctx context.Context, id, executionID, text string) error {
	return s.call(ctx, id, aboutExecution, func(ctx context.Context, _ *live, g guestproto.Guest) error {
		return g.Input(ctx, executionID, text)
	})
}

func infoOf(x guestproto.Execution) api.ExecutionInfo {
	info := api.ExecutionInfo{
		ID: x.ID, ContextID: x.Kernel, Status: x.Status, Position: x.Position, Code: x.Code, CommID: x.CommID, Batch: x.Batch,
		TimeoutSeconds: float64(x.TimeoutMS) / 1000, ExecutionCount: x.ExecutionCount, Events: x.Events,
		QueuedAt: x.QueuedAt.UTC(), StartedAt: moment(x.StartedAt), EndedAt: moment(x.EndedAt),
	}
	if x.Input != nil {
		info.Input = inputOf(*x.Input)
	}
	return info
}

// moment is nil for what has not happened.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
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

// callerLeft is what comes of a call whose sink failed.
func callerLeft(err error) error { return fmt.Errorf("the caller left: %w", err) }
