package v1

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"pandastack/api"
)

type forkSandbox struct {
	ID   sandboxID `path:"id" doc:"sandbox"`
	Body *api.Fork `required:"false"`
}

type forkTree struct {
	ID   sandboxID `path:"id" doc:"sandbox"`
	Body api.ForkTree
}

type promote struct {
	ID   sandboxID    `path:"id" doc:"the sandbox that stays"`
	Body *api.Promote `required:"false"`
}

func (h *handlers) forks(a huma.API) {
	tags := []string{"forks"}
	route(a, huma.Operation{
		OperationID: "fork-sandbox", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/fork", DefaultStatus: http.StatusCreated,
		Tags: tags, Summary: "Copy a sandbox",
		Description: "The copy continues from the same moment, kernels and processes included, with ids and random numbers of its own. The sandbox goes on.",
	}, func(ctx context.Context, in *forkSandbox) (*body[api.Forked], error) {
		_, children, err := h.Sandboxes.Fork(ctx, string(in.ID), api.ForkTree{Count: 1, Metadata: given(in.Body).Metadata})
		if err != nil {
			return nil, err
		}
		return answer(api.Forked{Sandbox: wireSandbox(children[0])}, nil)
	})
	route(a, huma.Operation{
		OperationID: "fork-tree", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/fork-tree", DefaultStatus: http.StatusCreated,
		Tags: tags, Summary: "Copy a sandbox several times", Description: "All copies continue from the same moment. All are made or none.",
	}, func(ctx context.Context, in *forkTree) (*body[api.ForkedTree], error) {
		tree, children, err := h.Sandboxes.Fork(ctx, string(in.ID), in.Body)
		out := api.ForkedTree{TreeID: tree, Children: make([]api.Sandbox, 0, len(children))}
		for _, child := range children {
			out.Children = append(out.Children, wireSandbox(child))
		}
		return answer(out, err)
	})
	route(a, huma.Operation{
		OperationID: "promote-sandbox", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/promote",
		Tags: tags, Summary: "Keep one copy of a fork", Description: "With cleanup_siblings the other copies made by the same call are deleted.",
	}, func(ctx context.Context, in *promote) (*body[api.Promoted], error) {
		return answer(h.Sandboxes.Promote(ctx, string(in.ID), given(in.Body)))
	})
}
