package v1

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"pandastack/api"
	"pandastack/internal/httpapi"
	"pandastack/internal/kit/logkey"
)

type createContext struct {
	ID   sandboxID `path:"id" doc:"sandbox"`
	Body *api.CreateContext
}

type execute struct {
	ID      sandboxID `path:"id" doc:"sandbox"`
	Context contextID `path:"context" doc:"context"`
	Body    api.Execute
}

type getExecution struct {
	ID        sandboxID   `path:"id" doc:"sandbox"`
	Execution executionID `path:"execution" doc:"execution"`
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
	h.executions(a)
}

func (h *handlers) executions(a huma.API) {
	route(a, huma.Operation{
		OperationID: "execute", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/contexts/{context}/executions",
		MaxBodyBytes: maxCodeBody, Tags: []string{"executions"}, Summary: "Run a cell",
		Description: "Answers when the cell is done. A client that leaves does not end the cell; its execution can be asked for by id.",
	}, func(ctx context.Context, in *execute) (*body[api.Execution], error) {
		ex, err := h.Sandboxes.Execute(ctx, string(in.ID), string(in.Context), in.Body)
		httpapi.Tag(ctx, logkey.Execution, ex.ID)
		return answer(wireExecution(ex), err)
	})
	route(a, huma.Operation{
		OperationID: "get-execution", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/executions/{execution}",
		Tags: []string{"executions"}, Summary: "Get an execution",
	}, func(ctx context.Context, in *getExecution) (*body[api.Execution], error) {
		ex, err := h.Sandboxes.Execution(ctx, string(in.ID), string(in.Execution))
		return answer(wireExecution(ex), err)
	})
}

func (h *handlers) createContext(ctx context.Context, in *createContext) (*body[api.Context], error) {
	req := api.CreateContext{}
	if in.Body != nil {
		req = *in.Body
	}
	if req.Language == "" {
		req.Language = "python"
	}
	return answer(h.Sandboxes.CreateContext(ctx, string(in.ID), req))
}

func wireExecution(ex api.Execution) api.Execution {
	ex.Results = list(ex.Results)
	return ex
}
