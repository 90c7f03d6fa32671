package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pandastack/api"
)

func TestRunTellsTheScriptItsArguments(t *testing.T) {
	a := newAnswers(t)
	script := filepath.Join(t.TempDir(), "täst.py")
	if err := os.WriteFile(script, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	written := ""
	a.routes = map[string]http.HandlerFunc{"PUT /v1/sandboxes/box1/fs": func(w http.ResponseWriter, r *http.Request) {
		written = r.URL.Query().Get("path")
		reply(w, 200, api.FileWritten{})
	}}
	a.execution = api.Execution{Status: "ok"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{script, "--flag", "ä"}, `sys.argv[:] = [\"/workspace/täst.py\",\"--flag\",\"ä\"]`},
		{[]string{"-", "--keep"}, `sys.argv[:] = [\"-\",\"--keep\"]`},
		{[]string{"-c", "1", "x"}, `sys.argv[:] = [\"-c\",\"x\"]`},
	} {
		if got := a.command(t.Context(), append([]string{"run"}, c.args...)...); got.code != 0 || !strings.Contains(a.prelude, c.want) {
			t.Errorf("%v: %+v, prelude %s, want %s in it", c.args, got, a.prelude, c.want)
		}
	}
	if written != "/workspace/täst.py" {
		t.Errorf("the file was written to %q", written)
	}
}

func TestRunExitsAsTheScriptDid(t *testing.T) {
	a := newAnswers(t)
	for _, c := range []struct {
		status, name, value string
		code                int
		errOut              string
	}{
		{"error", "SystemExit", "3", 3, ""},
		{"error", "SystemExit", "0", 0, ""},
		{"error", "SystemExit", "None", 0, ""},
		{"error", "SystemExit", "bad input", 1, "bad input\n"},
		{"error", "KeyError", "'x'", 1, "KeyError: 'x'\n"},
		{"timeout", "Timeout", "too long", 124, "Timeout: too long\n"},
	} {
		a.execution = api.Execution{Status: c.status, Error: &api.CellError{Name: c.name, Value: c.value}}
		if got := a.command(t.Context(), "run", "-c", "x"); got.code != c.code || got.errOut != c.errOut {
			t.Errorf("%s %s: %+v, want code %d and %q", c.name, c.value, got, c.code, c.errOut)
		}
	}
}

func TestRunWithoutAServerStartsOne(t *testing.T) {
	a := newAnswers(t)
	a.execution = api.Execution{Status: "ok", Stdout: "hi\n"}
	closed, tries := false, 0
	node := Node{
		Embed: func(_ context.Context, s Settings) (*Embedded, error) {
			if tries++; tries == 1 {
				return nil, errors.New("held")
			}
			if s["data_dir"] == "" {
				t.Error("the data directory was not handed on")
			}
			return &Embedded{URL: a.URL, Key: "pds_k", Close: func(context.Context) error {
				closed = a.asked("DELETE /v1/sandboxes/box1")
				return nil
			}}, nil
		},
		Build: func(_ context.Context, _ Settings, _ string, _ bool, progress func(Progress)) error {
			progress(Progress{Step: "warm", Index: 1, Of: 1})
			return nil
		},
		Explain: func(err error) Failure { return Failure{Message: err.Error(), Code: api.CodeHostDataDirLocked} },
	}
	got := command(t.Context(), nil, node, "run", "--data-dir", t.TempDir(), "-c", "1")
	want := "another command uses this data directory: waiting for it to end\n" +
		"no server is running: started one for this command\n" +
		"building template code-interpreter, which takes some minutes the first time\n"
	if got.code != 0 || got.out != "hi\n" || !strings.HasPrefix(got.errOut, want) {
		t.Errorf("%+v, want %q", got, want)
	}
	if !closed {
		t.Error("the server was not closed after the sandbox was gone")
	}
}

func TestCreateWaitsForTheTemplate(t *testing.T) {
	a := newAnswers(t)
	tries := 0
	a.routes = map[string]http.HandlerFunc{"POST /v1/sandboxes": func(w http.ResponseWriter, _ *http.Request) {
		if tries++; tries == 1 {
			w.Header().Set("Retry-After", "1")
			reply(w, 503, api.Error{Error: "it is being built", Code: api.CodeTemplateBuilding})
			return
		}
		reply(w, 201, api.Sandbox{ID: "box1"})
	}}
	got := a.command(t.Context(), "sandbox", "create")
	if got.code != 0 || got.out != "box1\n" || got.errOut != "it is being built: waiting for it\n" {
		t.Errorf("%+v", got)
	}
}

func TestAFailureSaysWhyTheCellWasEnded(t *testing.T) {
	for _, c := range []struct {
		e    api.CellError
		want string
	}{
		{api.CellError{Name: "Timeout", Value: "too long", Traceback: "T\nKeyboardInterrupt"}, "T\nKeyboardInterrupt\nTimeout: too long\n"},
		{api.CellError{Name: "Timeout", Value: "mine", Traceback: "T\nTimeout: mine"}, "T\nTimeout: mine\n"},
		{api.CellError{Name: "E", Value: "v", Traceback: "T"}, "T\n"},
		{api.CellError{Name: "KernelDied", Value: "v"}, "KernelDied: v\n"},
	} {
		if got := failureText(c.e); got != c.want {
			t.Errorf("%+v: got %q", c.e, got)
		}
	}
}

// TestRunAnswersWithItsInput: standard input has one line, so the second question meets its end. A cell that
// asks for no more is no error.
func TestRunAnswersWithItsInput(t *testing.T) {
	a := newAnswers(t)
	answered := make(chan string)
	var cell api.Execute
	a.routes = map[string]http.HandlerFunc{"POST /v1/sandboxes/box1/contexts/ctx1/executions": func(w http.ResponseWriter, r *http.Request) {
		cell = api.Execute{}
		if err := json.NewDecoder(r.Body).Decode(&cell); err != nil || !cell.AllowStdin { // the prelude
			reply(w, 200, api.Execution{Status: "ok"})
			return
		}
		given := ""
		for n, question := range []string{"name? ", "age? "} {
			fmt.Fprintf(w, "data: {\"seq\":%d,\"type\":\"input_request\",\"input\":{\"prompt\":%q}}\n\n", n+1, question)
			_ = http.NewResponseController(w).Flush()
			given += <-answered + ";"
		}
		text, _ := json.Marshal(given)
		fmt.Fprintf(w, "data: {\"seq\":3,\"type\":\"stdout\",\"text\":%s}\n\ndata: {\"seq\":4,\"type\":\"done\",\"execution\":{\"status\":\"ok\"}}\n\n", text)
	}}
	input := func(w http.ResponseWriter, r *http.Request) {
		var line api.Input
		_ = json.NewDecoder(r.Body).Decode(&line)
		answered <- line.Text
		if line.Text == endOfInput {
			reply(w, 409, api.Error{Error: "it asks for none", Code: api.CodeExecutionNoInput})
			return
		}
		w.WriteHeader(204)
	}
	a.otherwise = func(w http.ResponseWriter, r *http.Request) bool {
		mine := cell.ID != "" && r.URL.Path == "/v1/sandboxes/box1/executions/"+cell.ID+"/input"
		if mine {
			input(w, r)
		}
		return mine
	}
	if got := a.command(t.Context(), "run", "-c", "x"); got != (result{0, "name? age? print(1);\x04;", ""}) {
		t.Errorf("%+v", got)
	}
	if got := a.command(t.Context(), "run", "--json", "-c", "x"); !strings.HasPrefix(got.out, "{") || got.errOut != "name? age? " {
		t.Errorf("--json: %+v", got)
	}
}
