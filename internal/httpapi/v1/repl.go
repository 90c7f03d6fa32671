package v1

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"pandastack/api"
	"pandastack/internal/panda"
)

// The repl/sessions calls are how PandaStack's published clients run cells: a
// session is a context, a run an execution, in flatter clothes.

type replCreate struct {
	ID   sandboxID `path:"id" doc:"sandbox"`
	Body *struct {
		Language string `json:"language,omitempty"`
	} `nameHint:"CreateReplSession"`
}

type replSession struct {
	ID       string `json:"id"`
	Language string `json:"language"`
}

type replRun struct {
	ID      sandboxID `path:"id" doc:"sandbox"`
	Session contextID `path:"session" doc:"session"`
	Body    struct {
		Code      string  `json:"code"`
		TimeoutMS float64 `json:"timeout_ms,omitempty" minimum:"0" maximum:"31536000000"`
	} `nameHint:"ReplRunRequest"`
}

type replDelete struct {
	ID      sandboxID `path:"id" doc:"sandbox"`
	Session contextID `path:"session" doc:"session"`
}

// replResult is what a run left. Each result maps MIME types to strings.
type replResult struct {
	Results    []map[string]string `json:"results"`
	Stdout     string              `json:"stdout"`
	Stderr     string              `json:"stderr"`
	Error      *string             `json:"error"`
	Exit       int                 `json:"exit"`
	DurationMS float64             `json:"duration_ms"`
}

func (h *handlers) repl(a huma.API) {
	const sessions = "/v1/sandboxes/{id}/repl/sessions"
	tags := []string{"repl (published clients)"}
	route(a, huma.Operation{
		OperationID: "create-repl-session", Method: http.MethodPost, Path: sessions, DefaultStatus: http.StatusCreated,
		Tags: tags, Summary: "Create a context",
	}, func(ctx context.Context, in *replCreate) (*body[replSession], error) {
		req := api.CreateContext{Language: "python"}
		if in.Body != nil && in.Body.Language != "" {
			req.Language = strings.ToLower(in.Body.Language)
		}
		c, err := h.Sandboxes.CreateContext(ctx, string(in.ID), req)
		return answer(replSession{ID: c.ID, Language: c.Language}, err)
	})
	route(a, huma.Operation{
		OperationID: "run-repl-session", Method: http.MethodPost, Path: sessions + "/{session}/run", MaxBodyBytes: maxCodeBody,
		Tags: tags, Summary: "Run a cell",
	}, h.replRun)
	route(a, huma.Operation{
		OperationID: "delete-repl-session", Method: http.MethodDelete, Path: sessions + "/{session}", DefaultStatus: http.StatusNoContent,
		Tags: tags, Summary: "Delete a context",
	}, func(ctx context.Context, in *replDelete) (*none, error) {
		return &none{}, h.Sandboxes.DeleteContext(ctx, string(in.ID), string(in.Session))
	})
}

func (h *handlers) replRun(ctx context.Context, in *replRun) (*body[replResult], error) {
	ex, err := h.Sandboxes.Execute(ctx, string(in.ID), string(in.Session), api.Execute{
		Code: in.Body.Code, TimeoutSeconds: in.Body.TimeoutMS / 1000,
		Output: &api.OutputBudget{StreamBytes: 1 << 20}, // its clients cannot ask for the rest
	})
	if err != nil {
		return nil, err
	}
	if ex.Status == "timeout" {
		message := fmt.Sprintf("timeout: the cell ran longer than %g ms", in.Body.TimeoutMS) // clients look for the word
		if ex.ContextRestarted {
			message += "; its kernel had to be restarted and its variables are lost"
		}
		return nil, &panda.Error{
			Code:    api.CodeExecutionTimeout,
			Message: message,
			Detail:  map[string]any{"stdout": ex.Stdout, "stderr": ex.Stderr, "context_restarted": ex.ContextRestarted},
		}
	}
	return answer(flatten(ex), nil)
}

func flatten(ex api.Execution) replResult {
	out := replResult{
		Results: make([]map[string]string, 0, len(ex.Results)),
		Stdout:  ex.Stdout, Stderr: ex.Stderr, DurationMS: ex.DurationMS,
	}
	for _, r := range ex.Results {
		bundle := make(map[string]string, len(r.Data))
		for mime, value := range r.Data {
			bundle[mime] = text(value)
		}
		out.Results = append(out.Results, bundle)
	}
	if ex.Error != nil {
		trace := ex.Error.Traceback
		if trace == "" {
			trace = ex.Error.Name + ": " + ex.Error.Value
		}
		out.Error, out.Exit = &trace, 1
	}
	return out
}

// text gives a JSON string's text, and any other JSON value as it is written.
func text(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) == nil {
		return s
	}
	var compact bytes.Buffer
	if json.Compact(&compact, value) != nil {
		return string(value)
	}
	return compact.String()
}
