package v1

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"pandastack/api"
)

type createContext struct {
	ID   sandboxID `path:"id" doc:"sandbox"`
	Body *api.CreateContext
}

func (h *handlers) contexts(a huma.API) {
	route(a, huma.Operation{
		OperationID: "create-context", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/contexts", DefaultStatus: http.StatusCreated,
		Tags: []string{"contexts"}, Summary: "Create a code context",
	}, h.createContext)
	route(a, huma.Operation{
		OperationID: "list-contexts", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/contexts",
		Tags: []string{"contexts"}, Summary: "List code contexts",
	}, func(ctx context.Context, in *inSandbox) (*body[api.ContextList], error) {
		items, err := h.Sandboxes.Contexts(ctx, string(in.ID))
		return answer(api.ContextList{Items: list(items)}, err)
	})
	route(a, huma.Operation{
		OperationID: "get-context", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/contexts/{context}",
		Tags: []string{"contexts"}, Summary: "Get a code context",
	}, func(ctx context.Context, in *inContext) (*body[api.Context], error) {
		return answer(h.Sandboxes.Context(ctx, string(in.ID), string(in.Context)))
	})
	route(a, huma.Operation{
		OperationID: "delete-context", Method: http.MethodDelete, Path: "/v1/sandboxes/{id}/contexts/{context}", DefaultStatus: http.StatusNoContent,
		Tags: []string{"contexts"}, Summary: "Delete a code context",
	}, func(ctx context.Context, in *inContext) (*none, error) {
		return &none{}, h.Sandboxes.DeleteContext(ctx, string(in.ID), string(in.Context))
	})
	route(a, huma.Operation{
		OperationID: "interrupt-context", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/contexts/{context}/interrupt", DefaultStatus: http.StatusNoContent,
		Tags: []string{"contexts"}, Summary: "Interrupt the running cell",
	}, func(ctx context.Context, in *inContext) (*none, error) {
		return &none{}, h.Sandboxes.Interrupt(ctx, string(in.ID), string(in.Context))
	})
	route(a, huma.Operation{
		OperationID: "restart-context", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/contexts/{context}/restart",
		Tags: []string{"contexts"}, Summary: "Give a context a fresh kernel",
		Description: "Its variables are lost, its running cell ends with KernelDied, those that wait are aborted.",
	}, func(ctx context.Context, in *inContext) (*body[api.Context], error) {
		return answer(h.Sandboxes.RestartContext(ctx, string(in.ID), string(in.Context)))
	})
}

func (h *handlers) createContext(ctx context.Context, in *createContext) (*body[api.Context], error) {
	req := api.CreateContext{}
	if in.Body != nil {
		req = *in.Body
	}
	return answer(h.Sandboxes.CreateContext(ctx, string(in.ID), req))
}
