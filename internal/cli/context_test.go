package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pandastack/api"
)

// kernel is a sandbox with one context, whose cell ran has ended and whose cell runs goes on.
func kernel(t *testing.T) *answers {
	t.Helper()
	a := newAnswers(t)
	then := time.Now().Add(-90 * time.Second)
	one := api.Context{ID: "ctx1", Name: "plots", Language: "python", Status: "busy", Waiting: 1, ExecutionCount: 2, CreatedAt: then}
	cells := []api.ExecutionInfo{
		{ID: "ran", Status: "ok", Code: "print(1)\n2", ExecutionCount: 1, QueuedAt: then, EndedAt: &then},
		{ID: "runs", Status: "running", CommID: "slider", QueuedAt: then},
	}
	history := api.History{Items: []api.HistoryEntry{{Line: 1, Code: "print(1)\n2"}, {Line: 2, Code: "3"}}}
	answer := func(v any) http.HandlerFunc { return func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, v) } }
	a.routes = map[string]http.HandlerFunc{
		"GET /v1/sandboxes/box1/contexts":                 answer(api.ContextList{Items: []api.Context{one}}),
		"GET /v1/sandboxes/box1/contexts/ctx1":            answer(one),
		"GET /v1/sandboxes/box1/contexts/ctx1/executions": answer(api.ExecutionList{Items: cells}),
		"GET /v1/sandboxes/box1/contexts/ctx1/history":    answer(history),
		"GET /v1/sandboxes/box1/executions/ran":           answer(api.Execution{ID: "ran", Status: "ok", Events: 3}),
		"GET /v1/sandboxes/box1/executions/ran/events":    tellRan,
		"GET /v1/sandboxes/box1/executions/runs":          answer(api.Execution{ID: "runs", Status: "queued"}),
	}
	return a
}

// tellRan tells of a cell whose thread printed when it had ended.
func tellRan(w http.ResponseWriter, r *http.Request) {
	told := []string{`"type":"stdout","text":"1\n"`, `"type":"done","execution":{"status":"ok"}`, `"type":"stdout","text":"later\n"`}
	if r.URL.Query().Get("follow") == api.FollowDone {
		told = told[:2]
	}
	events(story(told...))(w, r)
}

// story is events in the order they are told.
func story(told ...string) string {
	text := ""
	for n, e := range told {
		text += fmt.Sprintf("data: {\"seq\":%d,%s}\n\n", n+1, e)
	}
	return text
}

func TestContexts(t *testing.T) {
	a := kernel(t)
	for line, want := range map[string]string{
		"context ls box1":         "ID    NAME   KERNEL  STATUS  WAITING  CELLS  AGE\nctx1  plots  python  busy    1        2      1m\n",
		"context cells box1 ctx1": "ID    STATUS   AGE  CODE\nran   ok       1m   print(1)\nruns  running  1m   message to the comm slider\n",
	} {
		if got := a.command(t.Context(), strings.Fields(line)...); got != (result{0, want, ""}) {
			t.Errorf("%s: %+v", line, got)
		}
		var items []struct{ ID string }
		got := a.command(t.Context(), append(strings.Fields(line), "--json")...)
		if err := json.Unmarshal([]byte(got.out), &items); err != nil || len(items) == 0 || items[0].ID == "" {
			t.Errorf("%s --json: %+v, %v", line, got, err)
		}
	}
}

func TestExport(t *testing.T) {
	a := kernel(t)
	to := filepath.Join(t.TempDir(), "out.ipynb")
	got := a.command(t.Context(), "context", "export", "box1", "ctx1", "-o", to)
	if want := "reading cells …\nwrote 2 cells to " + to + "; the outputs of 1 are not kept any more\n"; got != (result{0, "", want}) {
		t.Errorf("got %+v, want %q", got, want)
	}
	text, err := os.ReadFile(to)
	if err != nil || !strings.Contains(string(text), "\n     \"text\": [\n      \"1\\n\",\n      \"later\\n\"\n     ]\n") {
		t.Errorf("got %s, %v", text, err)
	}
	if got := a.command(t.Context(), "context", "export", "box1", "ctx1"); got.code != 0 || got.out != string(text) || !strings.Contains(got.errOut, "\n2 cells; ") {
		t.Errorf("to standard output: %+v", got)
	}
	a.routes["GET /v1/sandboxes/box1/contexts/ctx1/history"] = func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 409, api.Error{Error: "it runs a cell", Code: api.CodeContextBusy, Hint: "Wait."})
	}
	got = a.command(t.Context(), "context", "export", "box1", "ctx1")
	if got.code != 1 || got.out != "" || !strings.HasSuffix(got.errOut, "pandastack: it runs a cell (context.busy) — Wait.\n") {
		t.Errorf("of a busy context: %+v", got)
	}
}

func TestAttach(t *testing.T) {
	a := kernel(t)
	for line, want := range map[string]result{
		"attach box1 ran":                         {0, "1\n", ""},
		"attach --follow all box1 ran":            {0, "1\nlater\n", ""},
		"attach --follow none --after 2 box1 ran": {0, "later\n", ""},
		"attach box1 nope":                        {1, "", "pandastack: no such sandbox (sandbox.not_found) — List them.\n"},
		"attach --follow some box1 ran":           {2, "", `pandastack: --follow must be one of "none","done","all" but got "some" — see 'pandastack --help'` + "\n"},
	} {
		if got := a.command(t.Context(), strings.Fields(line)...); got != want {
			t.Errorf("%s: %+v, want %+v", line, got, want)
		}
	}
	a.routes["GET /v1/sandboxes/box1/executions/runs/events"] = events(story(
		`"type":"started"`, `"type":"input_request","input":{"prompt":"name? "}`,
		`"type":"done","execution":{"id":"runs","status":"timeout","error":{"name":"Timeout","value":"too long"}}`))
	asks := "the cell waits for its turn\nthe cell asks \"name? \"; the answer goes to POST /v1/sandboxes/box1/executions/runs/input\n"
	if got := a.command(t.Context(), "attach", "box1", "runs"); got != (result{124, "", asks + "Timeout: too long\n"}) {
		t.Errorf("one that fails: %+v", got)
	}
	var ex api.Execution
	got := a.command(t.Context(), "attach", "--json", "box1", "runs")
	if err := json.Unmarshal([]byte(got.out), &ex); err != nil || got.code != 124 || got.errOut != asks || ex.Status != "timeout" {
		t.Errorf("--json: %+v, %v", got, err)
	}
}

// TestAttachThatIsInterrupted: the cell goes on, and one that had ended has its exit code.
func TestAttachThatIsInterrupted(t *testing.T) {
	a := kernel(t)
	const again = "the cell goes on; 'pandastack attach --after 1 box1 ran' follows it again\npandastack: interrupted\n"
	for told, want := range map[string]result{
		story(`"type":"stdout","text":"1\n"`): {130, "1\n", again},
		story(`"type":"done","execution":{"status":"error","error":{"name":"SystemExit","value":"3"}}`): {3, "", ""},
	} {
		ctx, interrupt := context.WithCancel(t.Context())
		a.routes["GET /v1/sandboxes/box1/executions/ran/events"] = func(w http.ResponseWriter, r *http.Request) {
			events(told)(w, r)
			_ = http.NewResponseController(w).Flush()
			time.AfterFunc(100*time.Millisecond, interrupt)
			<-r.Context().Done()
		}
		if got := a.command(ctx, "attach", "--follow", "all", "box1", "ran"); got != want {
			t.Errorf("%s: %+v, want %+v", told, got, want)
		}
		interrupt()
	}
}

func TestCompletionKnowsWhatWasGiven(t *testing.T) {
	a := kernel(t)
	for line, want := range map[string]string{
		"context cells box1 ":        "ctx1\n",
		"context export -o x box1 c": "ctx1\n",
		"attach box1 ":               "ran\nruns\n",
		"attach ":                    "box1\n",
		"attach --follow d":          "done\n",
	} {
		words := strings.Split(line, " ")
		if got := a.command(t.Context(), append([]string{"__complete", "--"}, words...)...); got.out != want {
			t.Errorf("%q: %+v, want %q", line, got, want)
		}
	}
}
