package v1

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"pandastack/api"
)

// ofContext is the input of a call on one context with a body.
type ofContext[T any] struct {
	ID      sandboxID `path:"id" doc:"sandbox"`
	Context contextID `path:"context" doc:"context"`
	Body    T
}

type getHistory struct {
	ID      sandboxID `path:"id" doc:"sandbox"`
	Context contextID `path:"context" doc:"context"`
	Limit   int       `query:"limit" default:"100" minimum:"1" maximum:"10000" doc:"how many of the latest cells"`
}

// questions adds what a notebook asks a kernel beside cells. A context that runs
// a cell refuses them.
func (h *handlers) questions(a huma.API) {
	const path = "/v1/sandboxes/{id}/contexts/{context}/"
	question(a, "complete", path+"complete", "Complete code", h, Sandboxes.Complete)
	question(a, "inspect", path+"inspect", "Say what a name in code is", h, Sandboxes.Inspect)
	question(a, "is-complete", path+"is_complete", "Say whether code is a whole cell", h, Sandboxes.IsComplete)
	route(a, huma.Operation{
		OperationID: "get-history", Method: http.MethodGet, Path: path + "history",
		Tags: []string{"contexts"}, Summary: "List the cells a context ran",
	}, func(ctx context.Context, in *getHistory) (*body[api.History], error) {
		out, err := h.Sandboxes.History(ctx, string(in.ID), string(in.Context), in.Limit)
		out.Items = list(out.Items)
		return answer(out, err)
	})
}

func question[I, O any](a huma.API, id, path, summary string, h *handlers, ask func(s Sandboxes, ctx context.Context, id, contextID string, in I) (O, error)) {
	route(a, huma.Operation{
		OperationID: id, Method: http.MethodPost, Path: path, MaxBodyBytes: maxCodeBody,
		Tags: []string{"contexts"}, Summary: summary,
	}, func(ctx context.Context, in *ofContext[I]) (*body[O], error) {
		return answer(ask(h.Sandboxes, ctx, string(in.ID), string(in.Context), in.Body))
	})
}
