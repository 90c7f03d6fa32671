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
		req.ID = strings.ToLower(rand.Text())
	}
	f := &follower{sink: sink, whole: func() (api.Execution, error) { return c.Execution(ctx, id, req.ID) }}
	return f.run(ctx, func(after int64) error {
		if after == 0 { // whether the cell was begun or not: the id is the same
			return c.events(ctx, http.MethodPost, ofContext(id, contextID, "/executions"), req, f.take)
		}
		return c.events(ctx, http.MethodGet, ofExecution(id, req.ID, "/events?after="+strconv.FormatInt(after, 10)), nil, f.take)
	})
}

// Follow calls sink with an execution's events after one, until it is done. What
// Run says of streams holds.
func (c *Client) Follow(ctx context.Context, id, executionID string, after int64, sink func(api.ExecutionEvent) error) (api.Execution, error) {
	f := &follower{sink: sink, last: after, whole: func() (api.Execution, error) { return c.Execution(ctx, id, executionID) }}
	return f.run(ctx, func(after int64) error {
		return c.events(ctx, http.MethodGet, ofExecution(id, executionID, "/events?after="+strconv.FormatInt(after, 10)), nil, f.take)
	})
}

// follower is one cell's events over as many connections as it takes.
type follower struct {
	sink    func(api.ExecutionEvent) error
	last    int64
	whole   func() (api.Execution, error)
	refused error // the sink's error, or the server's
	done    *api.Execution
}

var errCut = fmt.Errorf("the server ended a cell's events without the last one: %w", io.ErrUnexpectedEOF)

func (f *follower) run(ctx context.Context, connect func(after int64) error) (api.Execution, error) {
	patience := time.Now().Add(reattachTime)
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		before := f.last
		err := connect(f.last)
		var answered *Error
		switch {
		case f.done != nil && f.refused == nil:
			return *f.done, nil
		case f.refused != nil:
			return api.Execution{}, f.refused
		case errors.As(err, &answered), ctx.Err() != nil:
			return api.Execution{}, err
		case err == nil:
			if ex, known := f.ended(); known {
				return ex, nil
			}
			err = errCut
		}
		if f.last > before {
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

// ended gives the execution if nothing follows the last event: what was asked for
// may have been the last one that there is.
func (f *follower) ended() (api.Execution, bool) {
	if f.last == 0 {
		return api.Execution{}, false
	}
	ex, err := f.whole()
	return ex, err == nil && ex.Status != "queued" && ex.Status != "running" && ex.Events <= f.last
}

func (f *follower) take(name string, data []byte) error {
	if name == "failure" {
		f.refused = streamError(data)
		return f.refused
	}
	var e api.ExecutionEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("read event %s: %w", name, err)
	}
	if e.Seq <= f.last {
		return nil // told before the stream broke
	}
	f.last = e.Seq
	if e.Type == "done" {
		f.done = e.Execution
	}
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
