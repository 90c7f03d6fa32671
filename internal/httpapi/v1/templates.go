package v1

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"pandastack/api"
)

type getTemplate struct {
	Name string `path:"name" maxLength:"64"`
}

func (h *handlers) templates(a huma.API) {
	route(a, huma.Operation{
		OperationID: "list-templates", Method: http.MethodGet, Path: "/v1/templates",
		Tags: []string{"templates"}, Summary: "List templates",
	}, func(ctx context.Context, _ *none) (*body[[]api.Template], error) {
		items, err := h.Templates.List(ctx)
		return answer(list(items), err) // bare, because one published client unwraps nothing
	})
	route(a, huma.Operation{
		OperationID: "get-template", Method: http.MethodGet, Path: "/v1/templates/{name}",
		Tags: []string{"templates"}, Summary: "Get a template",
	}, func(ctx context.Context, in *getTemplate) (*body[api.Template], error) {
		return answer(h.Templates.Get(ctx, in.Name))
	})
}

func (h *handlers) node(a huma.API) {
	unauthenticated := []map[string][]string{{}}
	route(a, huma.Operation{
		OperationID: "health", Method: http.MethodGet, Path: "/v1/health", Security: unauthenticated,
		Tags: []string{"node"}, Summary: "Is the server well?",
	}, func(ctx context.Context, _ *none) (*body[api.Health], error) {
		return answer(h.Node.Health(ctx))
	})
	route(a, huma.Operation{
		OperationID: "version", Method: http.MethodGet, Path: "/v1/version",
		Tags: []string{"node"}, Summary: "What runs here",
	}, func(context.Context, *none) (*body[api.Version], error) {
		return answer(h.Node.Version(), nil)
	})
}
