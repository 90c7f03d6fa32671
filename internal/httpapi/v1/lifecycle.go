package v1

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"pandastack/api"
)

type setLifecycle struct {
	ID   sandboxID `path:"id" doc:"sandbox"`
	Body api.SetLifecycle
}

func (h *handlers) lifecycle(a huma.API) {
	const path = "/v1/sandboxes/{id}/lifecycle"
	route(a, huma.Operation{
		OperationID: "get-lifecycle", Method: http.MethodGet, Path: path,
		Tags: []string{"sandboxes"}, Summary: "When does it end by itself?",
	}, func(ctx context.Context, in *inSandbox) (*body[api.Lifecycle], error) {
		return answer(h.Sandboxes.Lifecycle(ctx, string(in.ID)))
	})
	route(a, huma.Operation{
		OperationID: "set-lifecycle", Method: http.MethodPatch, Path: path,
		Tags: []string{"sandboxes"}, Summary: "Change when it ends by itself",
		Description: "Changes what the body names. A time to live counts from now.",
	}, func(ctx context.Context, in *setLifecycle) (*body[api.Lifecycle], error) {
		return answer(h.Sandboxes.SetLifecycle(ctx, string(in.ID), in.Body))
	})
}
