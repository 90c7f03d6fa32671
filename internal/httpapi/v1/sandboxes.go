package v1

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"pandastack/api"
	"pandastack/internal/httpapi"
	"pandastack/internal/kit/logkey"
	"pandastack/internal/panda"
)

// createSandbox is a request with what published clients may add to it.
type createSandbox struct {
	Body *struct {
		api.CreateSandbox
		Volumes []json.RawMessage `json:"volumes,omitempty" doc:"not offered"`
	} `nameHint:"CreateSandbox"`
}

func (h *handlers) sandboxes(a huma.API) {
	route(a, huma.Operation{
		OperationID: "create-sandbox", Method: http.MethodPost, Path: "/v1/sandboxes", DefaultStatus: http.StatusCreated,
		Tags: []string{"sandboxes"}, Summary: "Create a sandbox",
		Description: "Answers when the sandbox can be used. `start` says how it came to life and what that cost.",
	}, h.createSandbox)
	route(a, huma.Operation{
		OperationID: "list-sandboxes", Method: http.MethodGet, Path: "/v1/sandboxes",
		Tags: []string{"sandboxes"}, Summary: "List sandboxes",
	}, h.listSandboxes)
	route(a, huma.Operation{
		OperationID: "get-sandbox", Method: http.MethodGet, Path: "/v1/sandboxes/{id}",
		Tags: []string{"sandboxes"}, Summary: "Get a sandbox",
	}, func(ctx context.Context, in *inSandbox) (*body[api.Sandbox], error) {
		return answer(h.getSandbox(ctx, string(in.ID)))
	})
	route(a, huma.Operation{
		OperationID: "delete-sandbox", Method: http.MethodDelete, Path: "/v1/sandboxes/{id}", DefaultStatus: http.StatusNoContent,
		Tags: []string{"sandboxes"}, Summary: "Delete a sandbox",
		Description: "Ends the machine and answers when nothing of it is left.",
	}, func(ctx context.Context, in *inSandbox) (*none, error) {
		return &none{}, h.Sandboxes.Delete(ctx, string(in.ID))
	})
}

func (h *handlers) createSandbox(ctx context.Context, in *createSandbox) (*body[api.Sandbox], error) {
	req := api.CreateSandbox{}
	if in.Body != nil {
		req = in.Body.CreateSandbox
		if len(in.Body.Volumes) > 0 {
			return nil, notOfferedError("volumes")
		}
	}
	if req.Template == "" {
		req.Template = "code-interpreter"
	}
	req.Template = templateNamed(req.Template)
	box, err := h.Sandboxes.Create(ctx, req)
	httpapi.Tag(ctx, logkey.Sandbox, box.ID)
	return answer(wireSandbox(box), err)
}

func (h *handlers) getSandbox(ctx context.Context, id string) (api.Sandbox, error) {
	box, err := h.Sandboxes.Get(ctx, id)
	if err != nil {
		return api.Sandbox{}, err
	}
	seen, err := h.Sandboxes.Look(ctx, id)
	out := wireSandbox(box)
	out.Usage, out.Resumed, out.Saved = seen.Usage, seen.Resumed, seen.Saved
	return out, err
}

func (h *handlers) listSandboxes(ctx context.Context, _ *none) (*body[api.SandboxList], error) {
	boxes, err := h.Sandboxes.List(ctx)
	out := api.SandboxList{Items: make([]api.Sandbox, 0, len(boxes))}
	for _, box := range boxes {
		out.Items = append(out.Items, wireSandbox(box))
	}
	return answer(out, err)
}

func wireSandbox(s panda.Sandbox) api.Sandbox {
	out := api.Sandbox{
		ID: s.ID, Template: s.Template, CPU: s.CPU, MemoryMB: s.MemoryMB,
		Status: string(s.Status), Failure: s.Failure, CreatedAt: s.CreatedAt.UTC(),
		Metadata: maps.Clone(s.Metadata), TTLSeconds: int(s.TTL.Seconds()), Persistent: s.Persistent,
		Isolation: s.Isolation, Accelerator: s.Accelerator, Start: s.Start,
		BootMS: int(math.Round(s.Start.TotalMS)), BootMode: s.Start.Kind,
		FromSnapshot: s.FromSnapshot, ForkParentID: s.ForkParent, ForkTreeID: s.ForkTree,
	}
	if out.Metadata == nil {
		out.Metadata = map[string]string{}
	}
	out.Start.Steps = list(out.Start.Steps)
	if at := s.ExpiresAt(); !at.IsZero() {
		at = at.UTC()
		out.ExpiresAt = &at
	}
	return out
}
