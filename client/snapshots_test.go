package client_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"pandastack/api"
	"pandastack/client"
)

func TestSnapshotCalls(t *testing.T) {
	var asked, answer string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = r.Method + " " + r.URL.RequestURI() + " " + string(body)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	c, ctx := client.New(server.URL, "k", nil), t.Context()
	status := func(b api.Sandbox, err error) (string, error) { return b.Status, err }
	zero := 0
	for _, call := range []struct {
		do            func() (string, error)
		asked, answer string
		want          string
	}{
		{func() (string, error) { return status(c.Pause(ctx, "a/b")) }, "POST /v1/sandboxes/a%2Fb/pause ", `{"status":"paused"}`, "paused"},
		{func() (string, error) { return status(c.Resume(ctx, "b")) }, "POST /v1/sandboxes/b/resume ", `{"status":"running"}`, "running"},
		{func() (string, error) { return status(c.Hibernate(ctx, "b")) }, "POST /v1/sandboxes/b/hibernate ", `{"status":"hibernated"}`, "hibernated"},
		{func() (string, error) { return status(c.Wake(ctx, "b", api.Wake{From: "disk"})) }, `POST /v1/sandboxes/b/wake {"from":"disk"}`, `{"status":"running"}`, "running"},
		{func() (string, error) {
			s, err := c.TakeSnapshot(ctx, "b", api.TakeSnapshot{Name: "n"})
			return s.ID, err
		}, `POST /v1/sandboxes/b/snapshots {"name":"n"}`, `{"id":"s"}`, "s"},
		{func() (string, error) { s, err := c.Snapshot(ctx, "a/b"); return s.Name, err }, "GET /v1/snapshots/a%2Fb ", `{"name":"n"}`, "n"},
		{func() (string, error) {
			all, err := c.Snapshots(ctx, "b&c")
			return all[0].ID + all[1].ID, err
		}, "GET /v1/snapshots?sandbox_id=b%26c ", `{"items":[{"id":"s"},{"id":"t"}]}`, "st"},
		{func() (string, error) { return "", c.DeleteSnapshot(ctx, "n") }, "DELETE /v1/snapshots/n ", ``, ""},
		{func() (string, error) {
			b, err := c.Fork(ctx, "b", api.Fork{Metadata: map[string]string{"k": "v"}})
			return b.ID, err
		}, `POST /v1/sandboxes/b/fork {"metadata":{"k":"v"}}`, `{"sandbox":{"id":"x"}}`, "x"},
		{func() (string, error) {
			tree, err := c.ForkTree(ctx, "b", api.ForkTree{Count: 2})
			return tree.TreeID + tree.Children[1].ID, err
		}, `POST /v1/sandboxes/b/fork-tree {"count":2}`, `{"tree_id":"t","children":[{"id":"x"},{"id":"y"}]}`, "ty"},
		{func() (string, error) {
			p, err := c.Promote(ctx, "x", api.Promote{CleanupSiblings: true})
			return p.Deleted[0] + p.Failures["z"], err
		}, `POST /v1/sandboxes/x/promote {"cleanup_siblings":true}`, `{"deleted":["y"],"failures":{"z":"why"}}`, "ywhy"},
		{func() (string, error) {
			l, err := c.SetLifecycle(ctx, "b", api.SetLifecycle{IdleTimeoutSeconds: &zero})
			return l.OnTimeout, err
		}, `PATCH /v1/sandboxes/b/lifecycle {"idle_timeout_seconds":0}`, `{"on_timeout":"kill"}`, "kill"},
		{func() (string, error) { l, err := c.Lifecycle(ctx, "b"); return l.OnTimeout, err }, "GET /v1/sandboxes/b/lifecycle ", `{"on_timeout":"kill"}`, "kill"},
	} {
		asked, answer = "", call.answer
		if got, err := call.do(); err != nil || got != call.want || asked != call.asked {
			t.Errorf("got %q, %v; asked %q, want %q and %q", got, err, asked, call.want, call.asked)
		}
	}
}
