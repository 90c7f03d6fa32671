package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"pandastack/api"
	"pandastack/client"
)

// Do makes a call with a JSON body, unless in is nil, and reads a JSON answer,
// unless out is nil. What the server refuses is a *client.Error.
func (s *Server) Do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.URL+"/v1"+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.Key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		var refusal api.Error
		if err := json.Unmarshal(text, &refusal); err != nil {
			return fmt.Errorf("%s %s: %s: %.200s", method, path, resp.Status, text)
		}
		return &client.Error{Status: resp.StatusCode, Code: refusal.Code, Message: refusal.Error, Hint: refusal.Hint, Fields: refusal.Fields, Detail: refusal.Detail}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

func box(id, verb string) string { return "/sandboxes/" + url.PathEscape(id) + "/" + verb }

// Pause lets a sandbox stand still.
func (s *Server) Pause(ctx context.Context, id string) (out api.Sandbox, err error) {
	return out, s.Do(ctx, http.MethodPost, box(id, "pause"), nil, &out)
}

// Resume lets it go on.
func (s *Server) Resume(ctx context.Context, id string) (out api.Sandbox, err error) {
	return out, s.Do(ctx, http.MethodPost, box(id, "resume"), nil, &out)
}

// Hibernate moves it to disk.
func (s *Server) Hibernate(ctx context.Context, id string) (out api.Sandbox, err error) {
	return out, s.Do(ctx, http.MethodPost, box(id, "hibernate"), nil, &out)
}

// Wake makes it run again; from may be "".
func (s *Server) Wake(ctx context.Context, id, from string) (out api.Sandbox, err error) {
	return out, s.Do(ctx, http.MethodPost, box(id, "wake"), api.Wake{From: from}, &out)
}

// ForkTree makes copies of it.
func (s *Server) ForkTree(ctx context.Context, id string, count int) (out api.ForkedTree, err error) {
	return out, s.Do(ctx, http.MethodPost, box(id, "fork-tree"), api.ForkTree{Count: count}, &out)
}

// TakeSnapshot takes one, with a name unless that is "".
func (s *Server) TakeSnapshot(ctx context.Context, id, name string) (out api.Snapshot, err error) {
	return out, s.Do(ctx, http.MethodPost, box(id, "snapshots"), api.TakeSnapshot{Name: name}, &out)
}

// Snapshots lists all.
func (s *Server) Snapshots(ctx context.Context) ([]api.Snapshot, error) {
	var list api.SnapshotList
	err := s.Do(ctx, http.MethodGet, "/snapshots", nil, &list)
	return list.Items, err
}

// DeleteSnapshot removes one.
func (s *Server) DeleteSnapshot(ctx context.Context, id string) error {
	return s.Do(ctx, http.MethodDelete, "/snapshots/"+url.PathEscape(id), nil, nil)
}
