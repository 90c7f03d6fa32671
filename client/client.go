// Package client is the Go SDK: a thin, typed view of REST v1 that depends on
// the standard library only.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"pandastack/api"
)

// Client talks to one server. Its methods may be called concurrently and end
// with their context. What the server refuses is an *Error.
type Client struct {
	base string
	key  string
	http *http.Client
}

// New gives a client of the server at baseURL, such as http://127.0.0.1:7070.
// A nil httpClient is one without a timeout, because cells may be long.
func New(baseURL, key string, httpClient *http.Client) *Client {
	if httpClient == nil {
		httpClient = &http.Client{}
	}
	base := strings.TrimSuffix(strings.TrimRight(baseURL, "/"), "/v1")
	return &Client{base: base + "/v1", key: key, http: httpClient}
}

// Error is what the server answered instead of a result.
type Error struct {
	Status  int
	Code    string // of package api's registry
	Message string
	Hint    string
	Fields  []api.FieldError
	Detail  map[string]any
	// RetryAfter is when the server asks to be tried again; 0: it does not say.
	RetryAfter time.Duration
}

func (e *Error) Error() string { return e.Message }

// maxError bytes of an error's body are read.
const maxError = 1 << 20

// send makes one request; its answer's body is the caller's to close.
func (c *Client) send(ctx context.Context, method, path, contentType string, body io.Reader, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Accept", accept)
	if body != nil {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err // names method and address itself
	}
	if resp.StatusCode >= 400 {
		defer resp.Body.Close()
		return nil, readError(resp)
	}
	return resp, nil
}

// readError makes an *Error of any answer, an envelope or not.
func readError(resp *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxError))
	var body api.Error
	if err := json.Unmarshal(data, &body); err != nil || body.Error == "" {
		body = api.Error{Error: fmt.Sprintf("HTTP %s: %.200s", resp.Status, data)}
	}
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // the other form, a date, is not used here
	return &Error{
		Status: resp.StatusCode, Code: body.Code, Message: body.Error, Hint: body.Hint,
		Fields: body.Fields, Detail: body.Detail, RetryAfter: time.Duration(seconds) * time.Second,
	}
}

const jsonType = "application/json"

// sendJSON sends in as JSON, unless it is nil.
func (c *Client) sendJSON(ctx context.Context, method, path string, in any, accept string) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", method, path, err)
		}
		body = bytes.NewReader(data)
	}
	return c.send(ctx, method, path, jsonType, body, accept)
}

// call sends in as JSON, unless it is nil, and reads the answer into out,
// unless that is nil.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	resp, err := c.sendJSON(ctx, method, path, in, jsonType)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("%s %s: read answer: %w", method, path, err)
	}
	return nil
}

// Health asks whether the server is well.
func (c *Client) Health(ctx context.Context) (out api.Health, err error) {
	err = c.call(ctx, http.MethodGet, "/health", nil, &out)
	return out, err
}

// Version asks what the server is.
func (c *Client) Version(ctx context.Context) (out api.Version, err error) {
	err = c.call(ctx, http.MethodGet, "/version", nil, &out)
	return out, err
}

// Templates lists what sandboxes can be made from.
func (c *Client) Templates(ctx context.Context) (out []api.Template, err error) {
	err = c.call(ctx, http.MethodGet, "/templates", nil, &out)
	return out, err
}

// Template describes one template.
func (c *Client) Template(ctx context.Context, name string) (out api.Template, err error) {
	err = c.call(ctx, http.MethodGet, "/templates/"+url.PathEscape(name), nil, &out)
	return out, err
}
