package sandbox

import (
	"context"
	"encoding/json"
	"fmt"

	"pandastack/api"
	"pandastack/internal/guestproto"
)

// Run runs a cell and calls sink with each of its events, the last one done. The
// cell goes on when ctx ends or sink fails.
func (s *Service) Run(ctx context.Context, id, contextID string, req api.Execute, sink func(api.ExecutionEvent) error) error {
	cell, err := cellOf(&req)
	if err != nil {
		return err
	}
	f := &follower{id: req.ID, known: ran{contextID, req.TimeoutSeconds}, out: newCollector(s.cfg.Limits, req.Output), sink: sink}
	err = s.follow(ctx, id, aboutContext, f, func(ctx context.Context, g guestproto.Guest) error {
		return g.Execute(ctx, contextID, cell, nil, f.take)
	})
	if err == nil && f.ended != nil {
		s.observeCell(id, *f.ended)
	}
	return err
}

// Follow calls sink with each event of an execution after one, as far as how says.
func (s *Service) Follow(ctx context.Context, id, executionID string, how api.Follow, sink func(api.ExecutionEvent) error) error {
	if how.After < 0 {
		return invalid("after", "must not be negative")
	}
	if err := checkBudget(how.Output); err != nil {
		return err
	}
	f := &follower{id: executionID, after: how.After, out: newCollector(s.cfg.Limits, how.Output), sink: sink, open: how.Until == api.FollowNone}
	return s.follow(ctx, id, aboutExecution, f, func(ctx context.Context, g guestproto.Guest) error {
		f.whole = func(take func(guestproto.Event) error) error { return g.Replay(ctx, executionID, 0, take) }
		switch how.Until {
		case api.FollowNone:
			return g.Replay(ctx, executionID, how.After, f.take)
		case api.FollowAll:
			return g.Listen(ctx, executionID, how.After, f.take)
		}
		return g.Events(ctx, executionID, how.After, f.take)
	})
}

func (s *Service) follow(ctx context.Context, id string, about subject, f *follower, events func(context.Context, guestproto.Guest) error) error {
	err := s.call(ctx, id, about, func(ctx context.Context, _ *live, g guestproto.Guest) error {
		err := events(ctx, g)
		switch {
		case f.err != nil:
			return nil // no fault of the agent's
		case err == nil && f.ended == nil && f.after == 0 && !f.open:
			return errNoEnd
		}
		return err
	})
	if err == nil && f.err != nil {
		err = callerLeft(f.err)
	}
	return err
}

// follower makes the API's events of an execution's.
type follower struct {
	id    string
	known ran
	after int64
	open  bool // it may end before the cell does
	out   *collector
	whole func(take func(guestproto.Event) error) error // replays all, for out
	sink  func(api.ExecutionEvent) error
	err   error // the sink's
	ended *api.Execution
}

func (f *follower) take(e guestproto.Event) error {
	if f.after == 0 {
		if err := f.out.add(e); err != nil {
			return err
		}
	}
	event, err := eventOf(e)
	if err != nil {
		return fmt.Errorf("event %d, %s: %w", e.Seq, e.Type, err)
	}
	if e.Type == guestproto.EventDone {
		if event.Execution, err = f.execution(); err != nil {
			return err
		}
		f.ended = event.Execution
	}
	f.err = f.sink(event)
	return f.err
}

// execution gives all that came of the cell, also where only its last events
// were asked for.
func (f *follower) execution() (*api.Execution, error) {
	if f.after > 0 {
		if err := f.whole(f.out.add); err != nil {
			return nil, err
		}
	}
	ex := f.out.execution(f.id, f.known)
	return &ex, nil
}

// eventOf gives an event as the API has it.
func eventOf(e guestproto.Event) (api.ExecutionEvent, error) {
	out := api.ExecutionEvent{Seq: e.Seq, Type: e.Type}
	var err error
	switch e.Type {
	case guestproto.EventStream:
		err = with(e, func(m guestproto.Stream) { out.Type, out.Text = m.Name, m.Text })
	case guestproto.EventDisplay, guestproto.EventResult, guestproto.EventUpdateDisplay:
		err = with(e, func(d guestproto.Display) { displayed(&out, d) })
	case guestproto.EventClearOutput:
		err = with(e, func(m guestproto.ClearOutput) { out.Wait = m.Wait })
	case guestproto.EventError:
		err = with(e, func(m guestproto.CellError) { out.Error = cellErrorOf(m) })
	case guestproto.EventInput:
		err = with(e, func(q guestproto.InputRequest) { out.Input = inputOf(q) })
	case guestproto.EventComm:
		out.Comm = json.RawMessage(e.Content)
	case guestproto.EventDropped:
		err = with(e, func(d guestproto.Dropped) {
			out.Dropped = &api.Dropped{First: d.First, Bytes: d.Bytes, Stdout: api.TextSize(d.Stdout), Stderr: api.TextSize(d.Stderr)}
		})
	}
	return out, err
}

func displayed(out *api.ExecutionEvent, d guestproto.Display) {
	r := resultOf(d, out.Type == guestproto.EventResult)
	out.ExecutionCount = d.ExecutionCount
	if out.Result = &r; out.Type == guestproto.EventUpdateDisplay {
		out.Type = "display_update"
		return
	}
	out.Type = "result"
}

// Output calls write with all that a cell has printed to a stream by now. Where
// the agent did not keep the middle, a line says so.
func (s *Service) Output(ctx context.Context, id, executionID, stream string, write func(text string) error) error {
	var left error
	err := s.call(ctx, id, aboutExecution, func(ctx context.Context, _ *live, g guestproto.Guest) error {
		err := g.Replay(ctx, executionID, 0, func(e guestproto.Event) error {
			text, err := printed(e, stream)
			if err == nil && text != "" {
				left = write(text)
				err = left
			}
			return err
		})
		if left != nil {
			return nil
		}
		return err
	})
	if err == nil && left != nil {
		err = callerLeft(left)
	}
	return err
}

// printed gives what an event adds to a stream.
func printed(e guestproto.Event, stream string) (text string, err error) {
	switch e.Type {
	case guestproto.EventStream:
		err = with(e, func(m guestproto.Stream) {
			if m.Name == stream {
				text = m.Text
			}
		})
	case guestproto.EventDropped:
		err = with(e, func(d guestproto.Dropped) {
			lost := d.Stdout
			if stream == "stderr" {
				lost = d.Stderr
			}
			if lost.Bytes > 0 {
				text = fmt.Sprintf("\n[%d bytes, %d lines are missing here: more was printed than is kept]\n", lost.Bytes, lost.Lines)
			}
		})
	}
	return text, err
}
