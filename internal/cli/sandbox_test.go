package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"pandastack/api"
)

func TestSize(t *testing.T) {
	a := newAnswers(t)
	a.execution = api.Execution{Status: "ok"}
	var asked api.CreateSandbox
	a.routes = map[string]http.HandlerFunc{"POST /v1/sandboxes": func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewDecoder(r.Body).Decode(&asked)
		reply(w, 201, api.Sandbox{ID: "box1"})
	}}
	for _, args := range [][]string{
		{"sandbox", "create", "--cpu", "2", "--memory", "512"},
		{"run", "--cpu=2", "--memory=512", "-c", "1"},
	} {
		asked = api.CreateSandbox{}
		got := a.command(t.Context(), args...)
		if got.code != 0 || asked.Template != "code-interpreter" || asked.CPU != 2 || asked.MemoryMB != 512 {
			t.Errorf("%v: %+v, asked for %+v", args, got, asked)
		}
	}
}

// recorded gives answers that remember the bodies of what they are asked.
func recorded(bodies *[]string, answer any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*bodies = append(*bodies, strings.TrimPrefix(r.URL.RequestURI(), "/v1")+" "+string(body))
		reply(w, 200, answer)
	}
}

func TestStatesOfSandboxes(t *testing.T) {
	a := newAnswers(t)
	var asked []string
	a.routes = map[string]http.HandlerFunc{}
	for _, verb := range []string{"pause", "resume", "hibernate", "wake"} {
		a.routes["POST /v1/sandboxes/box1/"+verb] = recorded(&asked, api.Sandbox{ID: "box1"})
		got := a.command(t.Context(), "sandbox", verb, "none", "box1")
		if got.code != 1 || got.out != "box1\n" || !strings.Contains(got.errOut, api.CodeSandboxNotFound) {
			t.Errorf("%s: %+v", verb, got)
		}
	}
	if got := a.command(t.Context(), "sandbox", "wake", "--from-disk", "box1"); got.code != 0 || got.out != "box1\n" {
		t.Errorf("wake: %+v", got)
	}
	if want := `/sandboxes/box1/wake {"from":"disk"}`; asked[len(asked)-1] != want {
		t.Errorf("asked %q, want %q", asked[len(asked)-1], want)
	}
}

func TestSnapshotsAndCopies(t *testing.T) {
	a := newAnswers(t)
	taken := api.Snapshot{
		ID: "snap1", Name: "loaded", SandboxID: "box1", Template: "base", CreatedAt: time.Now().Add(-90 * time.Minute), CPU: 1, MemoryMB: 512,
		MemoryBytes: 2e6, DiskBytes: 5e5, PauseMS: 30, TotalMS: 400, Metadata: map[string]string{"k": "v"},
	}
	var asked []string
	a.routes = map[string]http.HandlerFunc{
		"POST /v1/sandboxes/box1/snapshots": recorded(&asked, taken),
		"POST /v1/sandboxes/box1/fork-tree": recorded(&asked, api.ForkedTree{Children: []api.Sandbox{{ID: "x"}, {ID: "y"}}}),
		"POST /v1/sandboxes":                recorded(&asked, api.Sandbox{ID: "box2"}),
		"GET /v1/snapshots":                 recorded(&asked, api.SnapshotList{Items: []api.Snapshot{taken}}),
		"GET /v1/snapshots/loaded":          recorded(&asked, taken),
		"DELETE /v1/snapshots/loaded":       recorded(&asked, nil),
	}
	for _, c := range []struct{ line, asked, out string }{
		{"sandbox snapshot --name loaded --metadata k=v box1", `/sandboxes/box1/snapshots {"name":"loaded","metadata":{"k":"v"}}`, "snap1\n"},
		{"sandbox fork --count 2 --metadata k=v box1", `/sandboxes/box1/fork-tree {"count":2,"metadata":{"k":"v"}}`, "x\ny\n"},
		{"sandbox create --from-snapshot loaded --idle-timeout 60 --on-timeout hibernate",
			`/sandboxes {"from_snapshot":"loaded","idle_timeout_seconds":60,"on_timeout":"hibernate"}`, "box2\n"},
		{"snapshot ls --sandbox box1", "/snapshots?sandbox_id=box1 ", "snap1  loaded  base      box1     1h   2.0 MB  500.0 kB\n"},
		{"snapshot get loaded", "/snapshots/loaded ", "paused      30 ms, written in 400 ms\nmetadata.k  v\n"},
		{"snapshot rm loaded", "/snapshots/loaded ", "loaded\n"},
	} {
		got := a.command(t.Context(), strings.Fields(c.line)...)
		if got.code != 0 || !strings.HasSuffix(got.out, c.out) || asked[len(asked)-1] != c.asked {
			t.Errorf("%s: %+v, asked %q, want %q", c.line, got, asked[len(asked)-1], c.asked)
		}
	}
	var all []api.Snapshot
	got := a.command(t.Context(), "snapshot", "ls", "--json")
	if err := json.Unmarshal([]byte(got.out), &all); err != nil || len(all) != 1 || all[0].Metadata["k"] != "v" {
		t.Errorf("ls --json: %+v, %v", got, err)
	}
}

func TestGetTellsWhereASandboxComesFrom(t *testing.T) {
	a := newAnswers(t)
	a.routes = map[string]http.HandlerFunc{"GET /v1/sandboxes/box1": func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, api.Sandbox{
			ID: "box1", FromSnapshot: "snap1", ForkParentID: "box0", ForkTreeID: "tree",
			Start: api.Start{Kind: "booted", TotalMS: 9, Lost: "memory"},
		})
	}}
	got := a.command(t.Context(), "sandbox", "get", "box1")
	for _, want := range []string{"booted in 9 ms, its memory was lost\n", "snapshot   snap1\n", "copy of    box0\n", "tree       tree\n"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("no %q in %s", want, got.out)
		}
	}
}
