package client_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pandastack/api"
	"pandastack/client"
)

// history is a kernel that ran four cells: one whose thread printed when it had ended,
// one like a cell of the kernel before, one whose outputs are gone since they were
// listed, and one that was not even listed.
var history = map[string]string{
	"/contexts/ctx":            `{"id":"ctx","language":"bash"}`,
	"/contexts/ctx/history":    `{"items":[{"line":1,"code":"a\nb"},{"line":2,"code":"2"},{"line":3,"code":"3"},{"line":4,"code":"4"}]}`,
	"/contexts/ctx/executions": `{"items":[` + ran("two", 2, 9) + `,` + ran("old", 1, 1) + `,` + ran("one", 1, 8) + `,` + ran("older", 2, 2) + `,{"id":"blank","code":" ","execution_count":2,"ended_at":"2026-01-01T00:59:00Z"},` + ran("three", 3, 9) + `,{"id":"running","status":"running"}]}`,
	"/executions/one":          `{"status":"ok","execution_count":1}`,
	"/executions/one/events":   told(`"type":"stdout","text":"x\n"`, `"type":"done","execution":{"status":"ok","execution_count":1}`, `"type":"stdout","text":"later"`),
	"/executions/two/events":   told(`"type":"result","result":{"data":{"text/plain":"4"},"metadata":{},"is_main_result":true}`, `"type":"done","execution":{"status":"died","execution_count":2,"error":{"name":"KernelDied","value":"v"}}`),
}

func ran(id string, count, minute int) string {
	return fmt.Sprintf(`{"id":%q,"code":"c","execution_count":%d,"ended_at":"2026-01-01T00:%02d:00Z"}`, id, count, minute)
}

func told(events ...string) string {
	text := ""
	for n, e := range events {
		text += fmt.Sprintf("data: {\"seq\":%d,%s}\n\n", n+1, e)
	}
	return text
}

func TestExportNotebook(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, known := history[strings.TrimPrefix(r.URL.Path, "/v1/sandboxes/box")]
		if !known {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"error":"no such execution","code":"execution.not_found"}`
		}
		if strings.HasSuffix(r.URL.Path, "/events") && r.URL.Query().Get("follow") != "none" {
			t.Errorf("asked for %s", r.URL)
		}
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	progress := ""
	n, err := client.New(server.URL, "k", nil).ExportNotebook(t.Context(), "box", "ctx", func(done, total int) { progress += fmt.Sprint(done, "/", total, " ") })
	if err != nil || progress != "1/4 2/4 3/4 4/4 " {
		t.Fatalf("got %v, progress %q", err, progress)
	}
	got, _ := json.Marshal(n)
	const gone = `"metadata":{"pandastack":{"outputs":"not kept"}},"outputs":[]`
	const want = `{"cells":[` +
		`{"cell_type":"code","execution_count":1,"metadata":{},"outputs":[{"name":"stdout","output_type":"stream","text":["x\n","later"]}],"source":["a\n","b"]},` +
		`{"cell_type":"code","execution_count":2,"metadata":{},"outputs":[{"data":{"text/plain":["4"]},"execution_count":2,"metadata":{},"output_type":"execute_result"},` +
		`{"ename":"KernelDied","evalue":"v","output_type":"error","traceback":[]}],"source":["2"]},` +
		`{"cell_type":"code","execution_count":3,` + gone + `,"source":["3"]},{"cell_type":"code","execution_count":4,` + gone + `,"source":["4"]}],` +
		`"metadata":{"kernelspec":{"display_name":"Bash","language":"bash","name":"bash"}},"nbformat":4,"nbformat_minor":4}`
	if string(got) != want || !n.Cells[1].Kept || n.Cells[2].Kept {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestExportOfABusyContext(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/history") {
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"error":"it runs a cell","code":"context.busy"}`)
			return
		}
		_, _ = io.WriteString(w, `{}`)
	}))
	defer server.Close()
	_, err := client.New(server.URL, "k", nil).ExportNotebook(t.Context(), "box", "ctx", nil)
	if refused, ok := err.(*client.Error); !ok || refused.Code != api.CodeContextBusy {
		t.Errorf("got %v", err)
	}
}

func TestNotebookOutputsFollowTheirDisplays(t *testing.T) {
	before := &client.NotebookOutputs{}
	o := client.NotebookOutputs{Before: before}
	shown := func(text, id string) *api.Result {
		value, _ := json.Marshal(text)
		return &api.Result{Data: map[string]json.RawMessage{"text/plain": value}, DisplayID: id}
	}
	_ = before.Add(api.ExecutionEvent{Type: "result", Result: shown("0%", "d")})
	earlier := before.Finished(api.Execution{})
	for _, e := range []api.ExecutionEvent{
		{Type: "stdout", Text: "gone"}, {Type: "clear_output", Wait: true}, {Type: "result", Result: shown("0%", "d")},
		{Type: "stdout", Text: "a"}, {Type: "stdout", Text: "b"}, {Type: "display_update", Result: shown("100%", "d")},
	} {
		_ = o.Add(e)
	}
	got, _ := json.Marshal(o.Finished(api.Execution{}))
	const want = `[{"data":{"text/plain":["100%"]},"metadata":null,"output_type":"display_data"},{"name":"stdout","output_type":"stream","text":["ab"]}]`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, _ := json.Marshal(earlier); string(got) != `[{"data":{"text/plain":["100%"]},"metadata":null,"output_type":"display_data"}]` {
		t.Errorf("the cell before has %s", got)
	}
}
