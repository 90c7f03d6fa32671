package guestproto

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// maxID bounds the ids that a guest sends.
const maxID = 128

// inputBody is the body of the call that answers a cell's question.
type inputBody struct {
	Text string `json:"text"`
}

func (h *handler) restartKernel(_ http.ResponseWriter, r *http.Request) error {
	return h.g.RestartKernel(r.Context(), r.PathValue("id"))
}

func (h *handler) ask(w http.ResponseWriter, r *http.Request) error {
	content, err := body[json.RawMessage](r)
	if err != nil {
		return err
	}
	v, err := h.g.Ask(r.Context(), r.PathValue("id"), r.PathValue("kind"), content)
	return reply(w, v, err)
}

func (h *handler) start(w http.ResponseWriter, r *http.Request) error {
	req, err := body[ExecuteRequest](r)
	if err != nil {
		return err
	}
	v, err := h.g.Start(r.Context(), r.PathValue("id"), req)
	return reply(w, v, err)
}

func (h *handler) executions(w http.ResponseWriter, r *http.Request) error {
	v, err := h.g.Executions(r.Context(), r.URL.Query().Get("kernel"))
	return reply(w, v, err)
}

func (h *handler) execution(w http.ResponseWriter, r *http.Request) error {
	v, err := h.g.Execution(r.Context(), r.PathValue("id"))
	return reply(w, v, err)
}

func (h *handler) cancelExecution(_ http.ResponseWriter, r *http.Request) error {
	return h.g.CancelExecution(r.Context(), r.PathValue("id"))
}

func (h *handler) input(_ http.ResponseWriter, r *http.Request) error {
	req, err := body[inputBody](r)
	if err != nil {
		return err
	}
	return h.g.Input(r.Context(), r.PathValue("id"), req.Text)
}

// RestartKernel implements Guest.
func (c *Client) RestartKernel(ctx context.Context, id string) error {
	return c.call(ctx, "POST", "/kernels/"+url.PathEscape(id)+"/restart", nil, nil)
}

// Ask implements Guest.
func (c *Client) Ask(ctx context.Context, kernel, kind string, content json.RawMessage) (json.RawMessage, error) {
	var raw json.RawMessage
	if err := c.call(ctx, "POST", "/kernels/"+url.PathEscape(kernel)+"/ask/"+url.PathEscape(kind), content, &raw); err != nil {
		return nil, err
	}
	answer, err := recodeAnswer(kind, bytes.ToValidUTF8(raw, []byte("\uFFFD")))
	if err != nil {
		return nil, fmt.Errorf("guest's answer to %s: %w", kind, err)
	}
	return answer, nil
}

// recodeAnswer passes a reply's content through the Go type of its kind.
func recodeAnswer(kind string, content []byte) (json.RawMessage, error) {
	switch kind {
	case AskComplete:
		return through(content, func(r *CompleteReply) bool { return r.CursorStart >= 0 && r.CursorEnd >= r.CursorStart })
	case AskInspect:
		return through[InspectReply](content, nil)
	case AskIsComplete:
		return through[IsCompleteReply](content, nil)
	case AskHistory:
		return through[HistoryReply](content, nil)
	}
	return nil, fmt.Errorf("unknown kind %.40q", kind)
}

// Start implements Guest.
func (c *Client) Start(ctx context.Context, kernel string, req ExecuteRequest) (x Execution, err error) {
	call := "/start"
	if req.Comm != nil {
		call = "/comms"
	}
	if err := c.call(ctx, "POST", "/kernels/"+url.PathEscape(kernel)+call, req, &x); err != nil {
		return x, err
	}
	return x, checkExecution(&x)
}

// Executions implements Guest.
func (c *Client) Executions(ctx context.Context, kernel string) (all []Execution, err error) {
	if err := c.call(ctx, "GET", "/executions?kernel="+url.QueryEscape(kernel), nil, &all); err != nil {
		return nil, err
	}
	for n := range all {
		if err := checkExecution(&all[n]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Execution implements Guest.
func (c *Client) Execution(ctx context.Context, id string) (x Execution, err error) {
	if err := c.call(ctx, "GET", "/executions/"+url.PathEscape(id), nil, &x); err != nil {
		return x, err
	}
	return x, checkExecution(&x)
}

// CancelExecution implements Guest.
func (c *Client) CancelExecution(ctx context.Context, id string) error {
	return c.call(ctx, "POST", "/executions/"+url.PathEscape(id)+"/cancel", nil, nil)
}

// Input implements Guest.
func (c *Client) Input(ctx context.Context, execution, text string) error {
	return c.call(ctx, "POST", "/executions/"+url.PathEscape(execution)+"/input", inputBody{text}, nil)
}

// checkExecution holds a guest to what an Execution may be.
func checkExecution(x *Execution) error {
	ok := x.ID != "" && len(x.ID) <= maxID && len(x.Kernel) <= maxID && len(x.Batch) <= maxID && len(x.CommID) <= maxID &&
		x.Position >= 0 && x.ExecutionCount >= 0 && x.TimeoutMS >= 0 && x.Events >= 0
	switch x.Status {
	case StatusQueued, StatusRunning, StatusOK, StatusError, StatusTimeout, StatusDied, StatusAborted:
	default:
		ok = false
	}
	if !ok {
		return errors.New("guest execution: impossible description")
	}
	x.Code = strings.ToValidUTF8(x.Code[:min(len(x.Code), MaxPreview)], "")
	return nil
}

func (s Size) possible() bool { return s.Bytes >= 0 && s.Lines >= 0 }

// Plus adds sizes.
func (s Size) Plus(o Size) Size { return Size{s.Bytes + o.Bytes, s.Lines + o.Lines} }

// Minus subtracts sizes.
func (s Size) Minus(o Size) Size { return Size{s.Bytes - o.Bytes, s.Lines - o.Lines} }
