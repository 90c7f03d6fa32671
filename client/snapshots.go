package client

import (
	"context"
	"net/http"
	"net/url"

	"pandastack/api"
)

// Pause lets a sandbox stand still in memory.
func (c *Client) Pause(ctx context.Context, id string) (api.Sandbox, error) {
	return c.transition(ctx, id, "/pause", nil)
}

// Resume lets a paused sandbox go on.
func (c *Client) Resume(ctx context.Context, id string) (api.Sandbox, error) {
	return c.transition(ctx, id, "/resume", nil)
}

// Hibernate moves a sandbox to disk and returns when all of it is there.
func (c *Client) Hibernate(ctx context.Context, id string) (api.Sandbox, error) {
	return c.transition(ctx, id, "/hibernate", nil)
}

// Wake brings a hibernated sandbox back.
func (c *Client) Wake(ctx context.Context, id string, req api.Wake) (api.Sandbox, error) {
	return c.transition(ctx, id, "/wake", req)
}

func (c *Client) transition(ctx context.Context, id, verb string, req any) (out api.Sandbox, err error) {
	err = c.call(ctx, http.MethodPost, in(id, verb), req, &out)
	return out, err
}

// TakeSnapshot saves a sandbox, which goes on.
func (c *Client) TakeSnapshot(ctx context.Context, id string, req api.TakeSnapshot) (out api.Snapshot, err error) {
	err = c.call(ctx, http.MethodPost, in(id, "/snapshots"), req, &out)
	return out, err
}

// Snapshots lists all snapshots, or those taken of one sandbox.
func (c *Client) Snapshots(ctx context.Context, sandbox string) ([]api.Snapshot, error) {
	path := "/snapshots"
	if sandbox != "" {
		path += "?sandbox_id=" + url.QueryEscape(sandbox)
	}
	var out api.SnapshotList
	err := c.call(ctx, http.MethodGet, path, nil, &out)
	return out.Items, err
}

// Snapshot gives one snapshot, by its id or name.
func (c *Client) Snapshot(ctx context.Context, id string) (out api.Snapshot, err error) {
	err = c.call(ctx, http.MethodGet, "/snapshots/"+url.PathEscape(id), nil, &out)
	return out, err
}

// DeleteSnapshot deletes one snapshot, by its id or name.
func (c *Client) DeleteSnapshot(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/snapshots/"+url.PathEscape(id), nil, nil)
}

// Fork makes one copy of a sandbox.
func (c *Client) Fork(ctx context.Context, id string, req api.Fork) (api.Sandbox, error) {
	var out api.Forked
	err := c.call(ctx, http.MethodPost, in(id, "/fork"), req, &out)
	return out.Sandbox, err
}

// ForkTree makes several copies of a sandbox that go on from one moment.
func (c *Client) ForkTree(ctx context.Context, id string, req api.ForkTree) (out api.ForkedTree, err error) {
	err = c.call(ctx, http.MethodPost, in(id, "/fork-tree"), req, &out)
	return out, err
}

// Promote makes one copy the one that stays.
func (c *Client) Promote(ctx context.Context, id string, req api.Promote) (out api.Promoted, err error) {
	err = c.call(ctx, http.MethodPost, in(id, "/promote"), req, &out)
	return out, err
}

// Lifecycle says when a sandbox ends by itself.
func (c *Client) Lifecycle(ctx context.Context, id string) (out api.Lifecycle, err error) {
	err = c.call(ctx, http.MethodGet, in(id, "/lifecycle"), nil, &out)
	return out, err
}

// SetLifecycle changes what req names of when a sandbox ends by itself.
func (c *Client) SetLifecycle(ctx context.Context, id string, req api.SetLifecycle) (out api.Lifecycle, err error) {
	err = c.call(ctx, http.MethodPatch, in(id, "/lifecycle"), req, &out)
	return out, err
}
