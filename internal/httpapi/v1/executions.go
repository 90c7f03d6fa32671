package v1

import (
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"pandastack/api"
	"pandastack/internal/httpapi"
	"pandastack/internal/kit/logkey"
)

// InQueue is the input of a call that puts something into a context's queue.
type InQueue struct {
	ID      sandboxID `path:"id" doc:"sandbox"`
	Context contextID `path:"context" doc:"context"`
	Key     string    `header:"Idempotency-Key" pattern:"^[A-Za-z0-9_-]{1,64}$" doc:"the same as id"`
	stream  bool
}

// Resolve sees what kind of answer is wanted, which is no parameter to OpenAPI.
func (in *InQueue) Resolve(ctx huma.Context) []error {
	in.stream = wantsEvents(ctx.Header("Accept"))
	return nil
}

// wantsEvents says whether an Accept header has server-sent events, and has no JSON that it likes better.
func wantsEvents(accept string) bool {
	weight := map[string]float64{}
	for part := range strings.SplitSeq(accept, ",") {
		kind, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		weight[kind] = 1
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
			weight[kind] = q
		}
	}
	events := weight["text/event-stream"]
	return events > 0 && events >= weight["application/json"]
}

type execute struct {
	InQueue
	Body api.Execute
}

type sendComm struct {
	InQueue
	Body api.SendComm
}

// InExecution is the input of a call on one execution. It has a large letter because
// package huma looks into embedded types that do.
type InExecution struct {
	ID        sandboxID   `path:"id" doc:"sandbox"`
	Execution executionID `path:"execution" doc:"execution"`
}

// Budget is an api.OutputBudget in a query.
type Budget struct {
	StreamBytes int `query:"stream_bytes" minimum:"0" maximum:"16777216" doc:"as in output of the call that runs a cell"`
	ResultBytes int `query:"result_bytes" minimum:"0" maximum:"67108864"`
}

func (b Budget) output() *api.OutputBudget {
	return &api.OutputBudget{StreamBytes: b.StreamBytes, ResultBytes: b.ResultBytes}
}

type getExecution struct {
	InExecution
	Budget
}

type getEvents struct {
	InExecution
	Budget
	After  string `query:"after" doc:"the number of the last event that is known; 0 for all"`
	LastID string `header:"Last-Event-ID" doc:"the same, as browsers send it"`
	Follow string `query:"follow" default:"done" enum:"none,done,all" doc:"none: what there is by now; all: also what its threads and processes print after done, until its kernel ends or the sandbox keeps it no longer"`
}

type getOutput struct {
	InExecution
	Stream string `query:"stream" default:"stdout" enum:"stdout,stderr"`
}

type answerInput struct {
	InExecution
	Body api.Input
}

func (h *handlers) executions(a huma.API) {
	const (
		ofContext   = "/v1/sandboxes/{id}/contexts/{context}/executions"
		ofExecution = "/v1/sandboxes/{id}/executions/{execution}"
	)
	tags := []string{"executions"}
	route(a, huma.Operation{
		OperationID: "execute", Method: http.MethodPost, Path: ofContext,
		MaxBodyBytes: maxCodeBody, Tags: tags, Summary: "Run a cell",
		Description: "Answers when the cell is done; with `Accept: text/event-stream` with its events as they come; with `detached` at once. " +
			"A client that leaves does not end the cell; its execution can be asked for by id.",
		Responses: queueResponses(a),
	}, func(ctx context.Context, in *execute) (*huma.StreamResponse, error) {
		return h.execute(ctx, in.InQueue, in.Body)
	})
	route(a, huma.Operation{
		OperationID: "send-comm", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/contexts/{context}/comms",
		MaxBodyBytes: maxCodeBody, Tags: tags, Summary: "Send a message to a comm",
		Description: "Moves a widget, say: `comm` is one of Jupyter's comm messages, as events of the type `comm` have them. It is queued, answered and followed " +
			"as a cell is, and done when its callbacks are. What the kernel does not know is no error to it.",
		Responses: queueResponses(a),
	}, func(ctx context.Context, in *sendComm) (*huma.StreamResponse, error) {
		return h.execute(ctx, in.InQueue, in.Body.Execute())
	})
	route(a, huma.Operation{
		OperationID: "list-executions", Method: http.MethodGet, Path: ofContext,
		Tags: tags, Summary: "List a context's cells",
		Description: "Those that wait, the one that runs, and the latest that ended.",
	}, func(ctx context.Context, in *inContext) (*body[api.ExecutionList], error) {
		items, err := h.Sandboxes.Executions(ctx, string(in.ID), string(in.Context))
		return answer(api.ExecutionList{Items: list(items)}, err)
	})
	route(a, huma.Operation{
		OperationID: "get-execution", Method: http.MethodGet, Path: ofExecution,
		Tags: tags, Summary: "Get an execution", Description: "What came of it, or what there is so far.",
	}, func(ctx context.Context, in *getExecution) (*body[api.Execution], error) {
		ex, err := h.Sandboxes.Execution(ctx, string(in.ID), string(in.Execution), in.output())
		return answer(wireExecution(ex), err)
	})
	route(a, huma.Operation{
		OperationID: "follow-execution", Method: http.MethodGet, Path: ofExecution + "/events",
		Tags: tags, Summary: "Follow an execution",
		Description: "Its events after one, until it is done or as `follow` says: server-sent events (`ExecutionEvent`; the id is its seq) or, asked with `Upgrade: websocket`, " +
			"messages, to which the client may send `{\"type\": \"input\", \"text\": …}` and `{\"type\": \"cancel\"}`. `failure` (`Error`) says what went wrong with the stream.",
		Responses: eventStream("Events, the last one done unless follow says otherwise"),
	}, h.followExecution)
	route(a, huma.Operation{
		OperationID: "get-execution-output", Method: http.MethodGet, Path: ofExecution + "/output",
		Tags: tags, Summary: "Download what a cell printed",
		Description: "All of one stream by now, up to the 256 MiB of events that a sandbox keeps of a cell.",
		Responses: map[string]*huma.Response{"200": {Description: "The text", Content: map[string]*huma.MediaType{
			"text/plain": {Schema: &huma.Schema{Type: "string"}},
		}}},
	}, h.executionOutput)
	route(a, huma.Operation{
		OperationID: "cancel-execution", Method: http.MethodPost, Path: ofExecution + "/cancel", DefaultStatus: http.StatusNoContent,
		Tags: tags, Summary: "Cancel a cell", Description: "Takes it out of the queue, or interrupts it. One that has ended is left alone.",
	}, func(ctx context.Context, in *InExecution) (*none, error) {
		return &none{}, h.Sandboxes.CancelExecution(ctx, string(in.ID), string(in.Execution))
	})
	route(a, huma.Operation{
		OperationID: "answer-input", Method: http.MethodPost, Path: ofExecution + "/input", DefaultStatus: http.StatusNoContent,
		MaxBodyBytes: 8 << 20, Tags: tags, Summary: "Answer what a cell asks",
	}, func(ctx context.Context, in *answerInput) (*none, error) {
		return &none{}, h.Sandboxes.Input(ctx, string(in.ID), string(in.Execution), in.Body.Text)
	})
}

// queueResponses are those of a call that puts something into a context's queue.
func queueResponses(a huma.API) map[string]*huma.Response {
	return map[string]*huma.Response{
		"200": {Description: "What came of it", Content: map[string]*huma.MediaType{
			"application/json": {Schema: schemaOf[api.Execution](a)}, "text/event-stream": {},
		}},
		"202": {Description: "detached: it runs or waits", Content: map[string]*huma.MediaType{
			"application/json": {Schema: schemaOf[api.ExecutionInfo](a)},
		}},
		"default": {Description: "Error", Content: map[string]*huma.MediaType{
			"application/json": {Schema: schemaOf[api.Error](a)},
		}},
	}
}

func schemaOf[T any](a huma.API) *huma.Schema {
	t := reflect.TypeFor[T]()
	return a.OpenAPI().Components.Schemas.Schema(t, true, t.Name())
}

func (h *handlers) execute(ctx context.Context, in InQueue, req api.Execute) (*huma.StreamResponse, error) {
	if err := in.adoptKey(&req); err != nil {
		return nil, err
	}
	sandbox, kernel := string(in.ID), string(in.Context)
	switch {
	case req.Detached:
		info, err := h.Sandboxes.Queue(ctx, sandbox, kernel, req)
		httpapi.Tag(ctx, logkey.Execution, info.ID)
		return jsonResponse(http.StatusAccepted, info, err)
	case in.stream:
		return streamed(func(sink func(api.ExecutionEvent) error) error {
			return h.Sandboxes.Run(ctx, sandbox, kernel, req, sink)
		}), nil
	}
	ex, err := h.Sandboxes.Execute(ctx, sandbox, kernel, req)
	httpapi.Tag(ctx, logkey.Execution, ex.ID)
	return jsonResponse(http.StatusOK, wireExecution(ex), err)
}

// adoptKey makes the header what the body's id is.
func (in *InQueue) adoptKey(req *api.Execute) error {
	switch {
	case in.Key == "" || in.Key == req.ID:
		return nil
	case req.ID != "":
		return invalid("header.Idempotency-Key", "differs from the body's id, which is the same thing")
	}
	req.ID = in.Key
	return nil
}

// jsonResponse is for a call that may also answer with a stream.
func jsonResponse(status int, v any, err error) (*huma.StreamResponse, error) {
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(out huma.Context) {
		data = append(data, '\n')
		out.SetHeader("Content-Type", "application/json")
		out.SetHeader("Content-Length", strconv.Itoa(len(data)))
		out.SetStatus(status)
		_, _ = out.BodyWriter().Write(data) // who has left does not hear it
	}}, nil
}

// streamed sends a cell's events as server-sent ones.
func streamed(run func(sink func(api.ExecutionEvent) error) error) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(out huma.Context) {
		r, w := humago.Unwrap(out)
		e := newEvents(w)
		e.failure = "failure"
		err := run(func(event api.ExecutionEvent) error {
			return e.sendNumbered(event.Seq, event.Type, wireEvent(event))
		})
		if err != nil && r.Context().Err() != nil { // the server ends, perhaps: the cell does not
			e.cut()
		}
		e.finish(r, err)
	}}
}

func (h *handlers) followExecution(ctx context.Context, in *getEvents) (*huma.StreamResponse, error) {
	after, err := in.after()
	if err != nil {
		return nil, err
	}
	how := api.Follow{After: after, Until: in.Follow, Output: in.output()}
	run := func(ctx context.Context, sink func(api.ExecutionEvent) error) error {
		return h.Sandboxes.Follow(ctx, string(in.ID), string(in.Execution), how, sink)
	}
	return &huma.StreamResponse{Body: func(out huma.Context) {
		if r, w := humago.Unwrap(out); isUpgrade(r) {
			h.followBySocket(w, r, in.InExecution, run)
			return
		}
		streamed(func(sink func(api.ExecutionEvent) error) error { return run(ctx, sink) }).Body(out)
	}}, nil
}

func (in *getEvents) after() (int64, error) {
	text := in.After
	if text == "" {
		text = in.LastID
	}
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, invalid("query.after", "must be an event's number, or 0")
	}
	return n, nil
}

func (h *handlers) executionOutput(ctx context.Context, in *getOutput) (*huma.StreamResponse, error) {
	return &huma.StreamResponse{Body: func(out huma.Context) {
		r, w := humago.Unwrap(out)
		begun := false
		begin := func() {
			if !begun {
				begun = true
				w.Header().Set("Content-Type", "text/plain; charset=utf-8")
				w.WriteHeader(http.StatusOK)
			}
		}
		err := h.Sandboxes.Output(ctx, string(in.ID), string(in.Execution), in.Stream, func(text string) error {
			begin()
			_, err := w.Write([]byte(text))
			return err
		})
		switch {
		case err == nil:
			begin()
		case begun:
			httpapi.Note(ctx, err)
			panic(http.ErrAbortHandler) // half a file must not look like a whole one
		default:
			httpapi.WriteError(w, r, err)
		}
	}}, nil
}

func wireExecution(ex api.Execution) api.Execution {
	ex.Results = list(ex.Results)
	return ex
}

func wireEvent(e api.ExecutionEvent) api.ExecutionEvent {
	if e.Execution != nil {
		ex := wireExecution(*e.Execution)
		e.Execution = &ex
	}
	return e
}
