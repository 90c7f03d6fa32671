package v1

import (
	"context"
	"maps"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"pandastack/api"
	"pandastack/internal/panda"
)

type takeSnapshot struct {
	ID   sandboxID         `path:"id" doc:"sandbox"`
	Body *api.TakeSnapshot `required:"false"`
}

type wakeSandbox struct {
	ID   sandboxID `path:"id" doc:"sandbox"`
	Body *api.Wake `required:"false"`
}

type inSnapshot struct {
	ID snapshotID `path:"snapshot" doc:"id or name"`
}

type listSnapshots struct {
	Sandbox string `query:"sandbox_id" doc:"only those taken of this sandbox"`
}

func (h *handlers) snapshots(a huma.API) {
	h.transitions(a)
	tags := []string{"snapshots"}
	route(a, huma.Operation{
		OperationID: "take-snapshot", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/snapshots", DefaultStatus: http.StatusCreated,
		Tags: tags, Summary: "Take a snapshot",
		Description: "Memory with everything that runs, and disk. The sandbox goes on. Answers when all is on disk.",
	}, func(ctx context.Context, in *takeSnapshot) (*body[api.Snapshot], error) {
		sn, err := h.Sandboxes.TakeSnapshot(ctx, string(in.ID), given(in.Body))
		return answer(wireSnapshot(sn), err)
	})
	route(a, huma.Operation{
		OperationID: "list-snapshots", Method: http.MethodGet, Path: "/v1/snapshots", Tags: tags, Summary: "List snapshots",
	}, func(ctx context.Context, in *listSnapshots) (*body[api.SnapshotList], error) {
		all, err := h.Sandboxes.Snapshots(ctx, in.Sandbox)
		out := api.SnapshotList{Items: make([]api.Snapshot, 0, len(all))}
		for _, sn := range all {
			out.Items = append(out.Items, wireSnapshot(sn))
		}
		out.Snapshots = out.Items
		return answer(out, err)
	})
	route(a, huma.Operation{
		OperationID: "get-snapshot", Method: http.MethodGet, Path: "/v1/snapshots/{snapshot}", Tags: tags, Summary: "Get a snapshot",
	}, func(ctx context.Context, in *inSnapshot) (*body[api.Snapshot], error) {
		sn, err := h.Sandboxes.Snapshot(ctx, string(in.ID))
		return answer(wireSnapshot(sn), err)
	})
	route(a, huma.Operation{
		OperationID: "delete-snapshot", Method: http.MethodDelete, Path: "/v1/snapshots/{snapshot}", DefaultStatus: http.StatusNoContent,
		Tags: tags, Summary: "Delete a snapshot", Description: "Sandboxes made from it go on.",
	}, func(ctx context.Context, in *inSnapshot) (*none, error) {
		return &none{}, h.Sandboxes.DeleteSnapshot(ctx, string(in.ID))
	})
}

// transitions are the calls that change whether a sandbox runs.
func (h *handlers) transitions(a huma.API) {
	change := func(verb, summary, description string, call func(context.Context, string) (api.Sandbox, error)) {
		route(a, huma.Operation{
			OperationID: verb + "-sandbox", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/" + verb,
			Tags: []string{"sandboxes"}, Summary: summary, Description: description,
		}, func(ctx context.Context, in *inSandbox) (*body[api.Sandbox], error) {
			return answer(call(ctx, string(in.ID)))
		})
	}
	change("pause", "Let a sandbox stand still", "It stays in memory and uses no CPU. Calls on it are refused until it goes on.",
		func(ctx context.Context, id string) (api.Sandbox, error) { return wired(h.Sandboxes.Pause(ctx, id)) })
	change("resume", "Let a paused sandbox go on", "One that is hibernated is woken.",
		func(ctx context.Context, id string) (api.Sandbox, error) { return wired(h.Sandboxes.Wake(ctx, id, "")) })
	change("hibernate", "Move a sandbox to disk", "Writes memory and disk, ends the machine and frees its memory. Answers when all is on disk.",
		func(ctx context.Context, id string) (api.Sandbox, error) {
			if _, err := h.Sandboxes.Hibernate(ctx, id); err != nil {
				return api.Sandbox{}, err
			}
			return h.getSandbox(ctx, id)
		})
	route(a, huma.Operation{
		OperationID: "wake-sandbox", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/wake",
		Tags: []string{"sandboxes"}, Summary: "Wake a hibernated sandbox",
		Description: "It goes on where it was, kernels included. From `disk` it boots anew with its files only. One that is paused goes on.",
	}, func(ctx context.Context, in *wakeSandbox) (*body[api.Sandbox], error) {
		return answer(wired(h.Sandboxes.Wake(ctx, string(in.ID), given(in.Body).From)))
	})
}

func wired(box panda.Sandbox, err error) (api.Sandbox, error) { return wireSandbox(box), err }

// given is a body that may be missing.
func given[T any](v *T) (out T) {
	if v != nil {
		out = *v
	}
	return out
}

func wireSnapshot(s panda.Snapshot) api.Snapshot {
	out := api.Snapshot{
		ID: s.ID, Name: s.Name, SandboxID: s.SandboxID, Template: s.Template, CreatedAt: s.CreatedAt,
		CPU: s.CPU, MemoryMB: s.MemoryMB, Metadata: maps.Clone(s.Metadata),
		MemoryBytes: s.MemoryBytes, DiskBytes: s.DiskBytes, PauseMS: s.PauseMS, TotalMS: s.TotalMS,
	}
	if out.Metadata == nil {
		out.Metadata = map[string]string{}
	}
	return out
}
