package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"pandastack/api"
)

// CreateSandbox makes a sandbox and returns when it can be used.
func (c *Client) CreateSandbox(ctx context.Context, req api.CreateSandbox) (out api.Sandbox, err error) {
	err = c.call(ctx, http.MethodPost, "/sandboxes", req, &out)
	return out, err
}

// Sandboxes lists all sandboxes.
func (c *Client) Sandboxes(ctx context.Context) ([]api.Sandbox, error) {
	var out api.SandboxList
	err := c.call(ctx, http.MethodGet, "/sandboxes", nil, &out)
	return out.Items, err
}

// Sandbox gives one sandbox.
func (c *Client) Sandbox(ctx context.Context, id string) (out api.Sandbox, err error) {
	err = c.call(ctx, http.MethodGet, in(id, ""), nil, &out)
	return out, err
}

// DeleteSandbox ends a sandbox and returns when nothing of it is left.
func (c *Client) DeleteSandbox(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, in(id, ""), nil, nil)
}

// CreateContext starts a kernel in a sandbox.
func (c *Client) CreateContext(ctx context.Context, id string, req api.CreateContext) (out api.Context, err error) {
	err = c.call(ctx, http.MethodPost, in(id, "/contexts"), req, &out)
	return out, err
}

// Contexts lists a sandbox's kernels.
func (c *Client) Contexts(ctx context.Context, id string) ([]api.Context, error) {
	var out api.ContextList
	err := c.call(ctx, http.MethodGet, in(id, "/contexts"), nil, &out)
	return out.Items, err
}

// Context gives one kernel.
func (c *Client) Context(ctx context.Context, id, contextID string) (out api.Context, err error) {
	err = c.call(ctx, http.MethodGet, ofContext(id, contextID, ""), nil, &out)
	return out, err
}

// History gives the latest cells that a kernel ran, the oldest first, at most limit.
// A kernel that runs a cell refuses it.
func (c *Client) History(ctx context.Context, id, contextID string, limit int) ([]api.HistoryEntry, error) {
	var out api.History
	err := c.call(ctx, http.MethodGet, ofContext(id, contextID, "/history?limit="+strconv.Itoa(limit)), nil, &out)
	return out.Items, err
}

// DeleteContext ends a kernel.
func (c *Client) DeleteContext(ctx context.Context, id, contextID string) error {
	return c.call(ctx, http.MethodDelete, in(id, "/contexts/"+url.PathEscape(contextID)), nil, nil)
}

// Interrupt interrupts the cell that a context is running.
func (c *Client) Interrupt(ctx context.Context, id, contextID string) error {
	return c.call(ctx, http.MethodPost, in(id, "/contexts/"+url.PathEscape(contextID)+"/interrupt"), nil, nil)
}

// Execute runs a cell and returns when it is done. A cell that raised is no
// error here; see the execution's.
func (c *Client) Execute(ctx context.Context, id, contextID string, req api.Execute) (out api.Execution, err error) {
	err = c.call(ctx, http.MethodPost, in(id, "/contexts/"+url.PathEscape(contextID)+"/executions"), req, &out)
	return out, err
}

// Exec runs a process and returns when it is done.
func (c *Client) Exec(ctx context.Context, id string, req api.Exec) (out api.ExecResult, err error) {
	err = c.call(ctx, http.MethodPost, in(id, "/exec"), req, &out)
	return out, err
}

// ReadFile opens a file of a sandbox; the caller closes it.
func (c *Client) ReadFile(ctx context.Context, id, path string) (io.ReadCloser, error) {
	resp, err := c.send(ctx, http.MethodGet, in(id, "/fs?path="+url.QueryEscape(path)), "", nil, "*/*")
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// WriteFile replaces a file of a sandbox by content.
func (c *Client) WriteFile(ctx context.Context, id, path string, content io.Reader) error {
	resp, err := c.send(ctx, http.MethodPut, in(id, "/fs?path="+url.QueryEscape(path)), "application/octet-stream", content, jsonType)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// ListDir lists a folder of a sandbox.
func (c *Client) ListDir(ctx context.Context, id, path string) ([]api.FileInfo, error) {
	var out api.Directory
	err := c.call(ctx, http.MethodGet, in(id, "/fs/dir?path="+url.QueryEscape(path)), nil, &out)
	return out.Entries, err
}

// Stat describes a file or folder of a sandbox.
func (c *Client) Stat(ctx context.Context, id, path string) (out api.FileInfo, err error) {
	err = c.call(ctx, http.MethodGet, in(id, "/fs/stat?path="+url.QueryEscape(path)), nil, &out)
	return out, err
}

// in is the path of something in a sandbox.
func in(id, rest string) string { return "/sandboxes/" + url.PathEscape(id) + rest }
