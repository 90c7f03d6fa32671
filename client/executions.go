package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"pandastack/api"
)

// reattachTime is how long a cell's events are asked for again once their stream
// broke: a server that is started anew finds its sandboxes in less.
const reattachTime = 30 * time.Second

func ofContext(id, contextID, rest string) string {
	return in(id, "/contexts/"+url.PathEscape(contextID)+rest)
}

func ofExecution(id, executionID, rest string) string {
	return in(id, "/executions/"+url.PathEscape(executionID)+rest)
}

// Run runs a cell and calls sink with its events as they come. It returns all
// that came of it. A stream that breaks is taken up where it ended; the cell goes
// on meanwhile, and also when ctx ends or sink fails.
func (c *Client) Run(ctx context.Context, id, contextID string, req api.Execute, sink func(api.ExecutionEvent) error) (api.Execution, error) {
	if req.ID == "" {
		req.ID = newID()
	}
	return c.begin(ctx, id, req.ID, call{ofContext(id, contextID, "/executions"), req}, sink)
}

// SendComm sends a message to a comm of a context's kernel, such as a widget's, and
// returns when its callbacks are done. A comm that the kernel does not know is no error.
func (c *Client) SendComm(ctx context.Context, id, contextID string, req api.SendComm) (out api.Execution, err error) {
	err = c.call(ctx, http.MethodPost, ofContext(id, contextID, "/comms"), req, &out)
	return out, err
}

// RunComm is SendComm with the events as they come: those of the type comm are the
// kernel's answers. What Run says of streams holds.
func (c *Client) RunComm(ctx context.Context, id, contextID string, req api.SendComm, sink func(api.ExecutionEvent) error) (api.Execution, error) {
	if req.ID == "" {
		req.ID = newID()
	}
	return c.begin(ctx, id, req.ID, call{ofContext(id, contextID, "/comms"), req}, sink)
}

// begin makes the call that begins an execution and follows that to its end.
func (c *Client) begin(ctx context.Context, id, executionID string, first call, sink func(api.ExecutionEvent) error) (api.Execution, error) {
	f := c.follower(id, executionID, api.Follow{}, sink)
	f.begin = first
	return f.run(ctx)
}

// Follow calls sink with an execution's events as far as how says: the zero value is
// all of them, to its end. It returns what came of the cell by then. What Run says of
// streams holds.
func (c *Client) Follow(ctx context.Context, id, executionID string, how api.Follow, sink func(api.ExecutionEvent) error) (api.Execution, error) {
	return c.follower(id, executionID, how, sink).run(ctx)
}

// newID gives an execution an id, by which its call may be made again.
func newID() string { return strings.ToLower(rand.Text()) }

// call is one that begins an execution.
type call struct {
	path string
	body any
}

// follower is one cell's events over as many connections as it takes.
type follower struct {
	client    *Client
	id        string // the sandbox's
	execution string
	begin     call       // with "" it is under way
	how       api.Follow // After is the newest event that sink was called with
	sink      func(api.ExecutionEvent) error
	refused   error          // the sink's error, or the server's
	done      *api.Execution // of the newest event, if that is done: what is printed after it is not in it
}

func (c *Client) follower(id, executionID string, how api.Follow, sink func(api.ExecutionEvent) error) *follower {
	if how.Until == "" {
		how.Until = api.FollowDone
	}
	return &follower{client: c, id: id, execution: executionID, how: how, sink: sink}
}

var errCut = fmt.Errorf("the server ended a cell's events without the last one: %w", io.ErrUnexpectedEOF)

func (f *follower) run(ctx context.Context) (api.Execution, error) {
	patience := time.Now().Add(reattachTime)
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		before, began := f.how.After, time.Now()
		err := f.connect(ctx)
		var answered *Error
		switch {
		case f.refused != nil:
			return api.Execution{}, f.refused
		case f.done != nil && f.how.Until == api.FollowDone:
			return *f.done, nil
		case errors.As(err, &answered), ctx.Err() != nil:
			return api.Execution{}, err
		case err == nil:
			if ex, known := f.ended(ctx); known {
				return ex, nil
			}
			err = errCut
		}
		if f.how.After > before || held(err, began) {
			patience, wait = time.Now().Add(reattachTime), 100*time.Millisecond
		}
		if time.Now().After(patience) {
			return api.Execution{}, err
		}
		select {
		case <-ctx.Done():
			return api.Execution{}, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// held says whether a stream was open for long before it broke, if only in silence:
// that time is none in which the server was away.
func held(err error, began time.Time) bool {
	var unreached *url.Error
	return !errors.As(err, &unreached) && time.Since(began) > reattachTime
}

func (f *follower) connect(ctx context.Context) error {
	if f.begin.path != "" && f.how.After == 0 { // whether it was begun or not: the id is the same
		return f.client.events(ctx, http.MethodPost, f.begin.path, f.begin.body, f.take)
	}
	query := url.Values{"after": {strconv.FormatInt(f.how.After, 10)}, "follow": {f.how.Until}}
	if budget := f.how.Output; budget != nil {
		query.Set("stream_bytes", strconv.Itoa(budget.StreamBytes))
		query.Set("result_bytes", strconv.Itoa(budget.ResultBytes))
	}
	return f.client.events(ctx, http.MethodGet, ofExecution(f.id, f.execution, "/events?"+query.Encode()), nil, f.take)
}

// ended gives the execution if a stream that ended has told all that was asked for.
// What follows an event may be nothing: it may have been the last one that there is.
func (f *follower) ended(ctx context.Context) (api.Execution, bool) {
	now := f.how.Until == api.FollowNone
	switch {
	case now && f.done != nil:
		return *f.done, true
	case !now && f.how.After == 0:
		return api.Execution{}, false
	}
	ex, err := f.client.Execution(ctx, f.id, f.execution)
	return ex, err == nil && (now || !underWay(ex) && ex.Events <= f.how.After)
}

func underWay(ex api.Execution) bool { return ex.Status == "queued" || ex.Status == "running" }

func (f *follower) take(name string, data []byte) error {
	if name == "failure" {
		f.refused = streamError(data)
		return f.refused
	}
	var e api.ExecutionEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("read event %s: %w", name, err)
	}
	if e.Seq <= f.how.After {
		return nil // told before the stream broke
	}
	f.how.After = e.Seq
	f.done = e.Execution
	f.refused = f.sink(e)
	return f.refused
}

// Queue puts a cell into its context's queue and returns at once.
func (c *Client) Queue(ctx context.Context, id, contextID string, req api.Execute) (out api.ExecutionInfo, err error) {
	req.Detached = true
	err = c.call(ctx, http.MethodPost, ofContext(id, contextID, "/executions"), req, &out)
	return out, err
}

// Executions lists a context's cells, the oldest first.
func (c *Client) Executions(ctx context.Context, id, contextID string) ([]api.ExecutionInfo, error) {
	var out api.ExecutionList
	err := c.call(ctx, http.MethodGet, ofContext(id, contextID, "/executions"), nil, &out)
	return out.Items, err
}

// Execution gives what came of a cell, or what there is so far.
func (c *Client) Execution(ctx context.Context, id, executionID string) (out api.Execution, err error) {
	err = c.call(ctx, http.MethodGet, ofExecution(id, executionID, ""), nil, &out)
	return out, err
}

// CancelExecution takes a cell out of its context's queue, or interrupts it.
func (c *Client) CancelExecution(ctx context.Context, id, executionID string) error {
	return c.call(ctx, http.MethodPost, ofExecution(id, executionID, "/cancel"), nil, nil)
}

// Input answers what a cell asks.
func (c *Client) Input(ctx context.Context, id, executionID, text string) error {
	return c.call(ctx, http.MethodPost, ofExecution(id, executionID, "/input"), api.Input{Text: text}, nil)
}

// Output opens all that a cell printed to stdout or stderr by now; the caller closes it.
func (c *Client) Output(ctx context.Context, id, executionID, stream string) (io.ReadCloser, error) {
	resp, err := c.send(ctx, http.MethodGet, ofExecution(id, executionID, "/output?stream="+url.QueryEscape(stream)), "", nil, "text/plain")
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// RestartContext gives a context a fresh kernel.
func (c *Client) RestartContext(ctx context.Context, id, contextID string) (out api.Context, err error) {
	err = c.call(ctx, http.MethodPost, ofContext(id, contextID, "/restart"), nil, &out)
	return out, err
}
