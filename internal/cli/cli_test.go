package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pandastack/api"
)

// answers is a server as the commands see one. It remembers what was asked.
type answers struct {
	*httptest.Server
	execution api.Execution
	routes    map[string]http.HandlerFunc // beside those below
	hang      chan struct{}               // closed when a cell begins that never ends

	otherwise func(http.ResponseWriter, *http.Request) bool // says whether it has answered

	mu      sync.Mutex
	calls   []string
	prelude string
}

func newAnswers(t *testing.T) *answers {
	t.Helper()
	a := &answers{}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := r.Method + " " + r.URL.Path
	a.mu.Lock()
	a.calls = append(a.calls, call)
	a.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if r.Header.Get("Authorization") != "Bearer pds_k" {
		reply(w, 401, api.Error{Error: "no such key", Code: api.CodeAuthWrongKey, Hint: "Compare it."})
		return
	}
	box := api.Sandbox{ID: "box1", Template: "code-interpreter", Status: "running", CreatedAt: time.Now(), Isolation: "emulated-vm+jail",
		Start: api.Start{Kind: "restored", TotalMS: 42}}
	if route := a.routes[call]; route != nil {
		route(w, r)
		return
	}
	if a.otherwise != nil && a.otherwise(w, r) {
		return
	}
	switch call {
	case "POST /v1/sandboxes":
		reply(w, 201, box)
	case "GET /v1/sandboxes":
		reply(w, 200, api.SandboxList{Items: []api.Sandbox{box}})
	case "GET /v1/sandboxes/box1":
		reply(w, 200, box)
	case "DELETE /v1/sandboxes/box1":
		w.WriteHeader(204)
	case "POST /v1/sandboxes/box1/contexts":
		reply(w, 201, api.Context{ID: "ctx1"})
	case "POST /v1/sandboxes/box1/contexts/ctx1/executions":
		a.execute(w, r, body)
	default:
		reply(w, 404, api.Error{Error: "no such sandbox", Code: api.CodeSandboxNotFound, Hint: "List them."})
	}
}

// execute answers the cell that readies the kernel, and then the user's.
func (a *answers) execute(w http.ResponseWriter, r *http.Request, body []byte) {
	if bytes.Contains(body, []byte("sys.argv[:] =")) {
		a.mu.Lock()
		a.prelude = string(body)
		a.mu.Unlock()
		reply(w, 200, api.Execution{Status: "ok"})
		return
	}
	if a.hang != nil {
		close(a.hang)
		<-r.Context().Done()
		return
	}
	for _, e := range a.story() {
		data, _ := json.Marshal(e)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.Type, data)
	}
}

// story tells the execution in events.
func (a *answers) story() []api.ExecutionEvent {
	all := []api.ExecutionEvent{{Type: "stdout", Text: a.execution.Stdout}, {Type: "stderr", Text: a.execution.Stderr}}
	for n := range a.execution.Results {
		all = append(all, api.ExecutionEvent{Type: "result", Result: &a.execution.Results[n]})
	}
	all = append(all, api.ExecutionEvent{Type: "done", Execution: &a.execution})
	for n := range all {
		all[n].Seq = int64(n + 1)
	}
	return all
}

func reply(w http.ResponseWriter, status int, v any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (a *answers) asked(call string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(a.calls, call)
}

// result of one command line.
type result struct {
	code        int
	out, errOut string
}

// command runs a command line against a server.
func (a *answers) command(ctx context.Context, args ...string) result {
	env := map[string]string{"PANDASTACK_API": a.URL, "PANDASTACK_API_KEY": "pds_k"}
	return command(ctx, env, Node{}, args...)
}

func command(ctx context.Context, env map[string]string, node Node, args ...string) result {
	var out, errOut bytes.Buffer
	code := Main(ctx, args, Env{
		Stdin: strings.NewReader("print(1)"), Stdout: &out, Stderr: &errOut,
		Getenv: func(k string) string { return env[k] },
	}, node)
	return result{code, out.String(), errOut.String()}
}

func TestSandboxCommands(t *testing.T) {
	a := newAnswers(t)
	if got := a.command(t.Context(), "sandbox", "create"); got.code != 0 || got.out != "box1\n" {
		t.Errorf("create: %+v", got)
	}
	got := a.command(t.Context(), "sandbox", "ls")
	if lines := strings.Split(got.out, "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], "ID ") || !strings.Contains(lines[1], "restored in 42 ms") {
		t.Errorf("ls: %+v", got)
	}
	var boxes []api.Sandbox
	got = a.command(t.Context(), "sandbox", "ls", "--json")
	if err := json.Unmarshal([]byte(got.out), &boxes); err != nil || len(boxes) != 1 || boxes[0].ID != "box1" {
		t.Errorf("ls --json: %+v, %v", got, err)
	}
	if got := a.command(t.Context(), "sandbox", "get", "box1"); !strings.Contains(got.out, "isolation") {
		t.Errorf("get: %+v", got)
	}
	got = a.command(t.Context(), "sandbox", "rm", "nope", "box1")
	if got.code != 1 || got.out != "box1\n" || got.errOut != "pandastack: no such sandbox (sandbox.not_found) — List them.\n" || !a.asked("DELETE /v1/sandboxes/box1") {
		t.Errorf("rm: %+v", got)
	}
}

func TestRun(t *testing.T) {
	a := newAnswers(t)
	a.execution = api.Execution{Status: "ok", Stdout: "out\n", Stderr: "err\n", Results: []api.Result{{
		Data: map[string]json.RawMessage{"text/plain": json.RawMessage(`"<Figure>"`), "image/png": json.RawMessage(`"aGVsbG8="`)},
	}}}
	images := filepath.Join(t.TempDir(), "images")
	got := a.command(t.Context(), "run", "-c", "1", "--save", images)
	if got.code != 0 || got.out != "out\n<Figure>\n" || !strings.HasPrefix(got.errOut, "err\nsaved ") {
		t.Errorf("%+v", got)
	}
	if data, err := os.ReadFile(filepath.Join(images, "image-1.png")); err != nil || string(data) != "hello" {
		t.Errorf("image: %q, %v", data, err)
	}
	if !a.asked("DELETE /v1/sandboxes/box1") {
		t.Error("the sandbox was left")
	}
}

// TestRunWhoseReaderLeaves: what it prints is refused, and the sandbox goes all the same.
func TestRunWhoseReaderLeaves(t *testing.T) {
	a := newAnswers(t)
	a.execution = api.Execution{Status: "ok", Stdout: "out\n"}
	names := map[string]string{"PANDASTACK_API": a.URL, "PANDASTACK_API_KEY": "pds_k"}
	env := Env{Stdin: strings.NewReader(""), Stdout: refusing{}, Stderr: io.Discard, Getenv: func(k string) string { return names[k] }}
	if code := Main(t.Context(), []string{"run", "-c", "1"}, env, Node{}); code != 1 || !a.asked("DELETE /v1/sandboxes/box1") {
		t.Errorf("code %d, calls %v", code, a.calls)
	}
}

type refusing struct{}

func (refusing) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestRunTellsOfAFailedCell(t *testing.T) {
	a := newAnswers(t)
	a.execution = api.Execution{Status: "error", Error: &api.CellError{Name: "ValueError", Value: "x", Traceback: "Traceback\nValueError: x"}}
	got := a.command(t.Context(), "run", "-")
	if got.code != 1 || got.errOut != "Traceback\nValueError: x\n" || !a.asked("DELETE /v1/sandboxes/box1") {
		t.Errorf("%+v", got)
	}
}

func TestRunRemovesItsSandboxWhenInterrupted(t *testing.T) {
	a := newAnswers(t)
	a.hang = make(chan struct{})
	ctx, interrupt := context.WithCancel(t.Context())
	done := make(chan result, 1)
	go func() { done <- a.command(ctx, "run", "-c", "while True: pass") }()
	<-a.hang
	interrupt()
	if got := <-done; got.code != 130 || got.errOut != "pandastack: interrupted\n" || !a.asked("DELETE /v1/sandboxes/box1") {
		t.Errorf("%+v, calls %v", got, a.calls)
	}
}

func TestCommandLinesThatCannotBeUnderstood(t *testing.T) {
	a := newAnswers(t)
	for _, args := range [][]string{{"nope"}, {"sandbox"}, {"sandbox", "get"}, {"run"}, {"sandbox", "rm"}, {"sandbox", "rm", "--all", "x"}, {"cp", "a", "b"}, {"exec", "box1"}, {"exec", "box1", "--"}, {"logs", "--console", "--agent", "x"}, {"serve", "--nope"}} {
		if got := a.command(t.Context(), args...); got.code != 2 || !strings.HasPrefix(got.errOut, "pandastack: ") {
			t.Errorf("%v: %+v", args, got)
		}
	}
	for _, args := range [][]string{{}, {"--help"}, {"run", "--help"}} {
		if got := a.command(t.Context(), args...); got.code != 0 || !strings.Contains(got.out, "Usage: pandastack") {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

// announce writes a data directory as a server does.
func announce(t *testing.T, url string, pid int) string {
	t.Helper()
	dir := t.TempDir()
	text := fmt.Sprintf(`{"url":%q,"pid":%d,"key_file":%q}`, url, pid, filepath.Join(dir, "key"))
	for name, content := range map[string]string{"server.json": text, "key": "# first\npds_k\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFindsTheServerOfThisMachine(t *testing.T) {
	a := newAnswers(t)
	dir := announce(t, a.URL, os.Getpid())
	for name, got := range map[string]result{
		"by environment": command(t.Context(), map[string]string{"PANDASTACK_DATA_DIR": dir}, Node{}, "sandbox", "ls"),
		"by flag":        command(t.Context(), nil, Node{}, "sandbox", "ls", "--data-dir", dir),
		"url given":      command(t.Context(), map[string]string{"PANDASTACK_API": a.URL + "/"}, Node{}, "sandbox", "ls", "--data-dir", dir),
	} {
		if got.code != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestSaysWhyThereIsNoServer(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"no announcement": {map[string]string{"PANDASTACK_DATA_DIR": t.TempDir()}, "no server is running here: there is no "},
		"process ended":   {map[string]string{"PANDASTACK_DATA_DIR": announce(t, gone.URL, 1<<22+1)}, "no server is running here: process "},
		"does not answer": {map[string]string{"PANDASTACK_API": gone.URL, "PANDASTACK_API_KEY": "k"}, "the server does not answer: "},
		"another server":  {map[string]string{"PANDASTACK_API": "http://192.0.2.1", "PANDASTACK_DATA_DIR": announce(t, gone.URL, os.Getpid())}, "no API key for http://192.0.2.1"},
	} {
		t.Run(name, func(t *testing.T) {
			got := command(t.Context(), c.env, Node{}, "sandbox", "ls")
			if got.code != 1 || !strings.HasPrefix(got.errOut, "pandastack: "+c.want) || strings.Count(got.errOut, "\n") != 1 || !strings.Contains(got.errOut, " — ") {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestNodeCommands(t *testing.T) {
	var settings Settings
	node := Node{
		Serve: func(_ context.Context, s Settings, _ io.Writer) error { settings = s; return errors.New("no luck") },
		Doctor: func(_ context.Context, _ Settings, report func(Check)) error {
			report(Check{Name: "one", Status: OK, Found: "fine"})
			report(Check{Name: "two", Status: Fail, Found: "bad", Hint: "mend it"})
			return nil
		},
		Build: func(_ context.Context, _ Settings, name string, refresh bool, progress func(Progress)) error {
			progress(Progress{Step: "packages", Index: 1, Of: 2})
			progress(Progress{Step: "packages", Index: 1, Of: 2, Done: 1, Total: 4, Unit: "%"})
			progress(Progress{Step: "packages", Index: 1, Of: 2, Finished: true, Elapsed: 1500 * time.Millisecond})
			progress(Progress{Step: "boot", Index: 2, Of: 2, Finished: true, Cached: true})
			return nil
		},
		Explain: func(err error) Failure {
			return Failure{Message: err.Error(), Code: "x.y", Hint: "try again", More: "log line"}
		},
	}
	got := command(t.Context(), nil, node, "serve", "--listen", "h:1", "--allow-host", "a", "--allow-host", "b")
	if got.code != 1 || got.errOut != "pandastack: no luck (x.y) — try again\nlog line\n" {
		t.Errorf("serve: %+v", got)
	}
	if len(settings) != 2 || settings["listen"] != "h:1" || settings["allow_hosts"] != "a,b" {
		t.Errorf("settings %v", settings)
	}
	got = command(t.Context(), nil, node, "doctor")
	if got.code != 1 || !strings.Contains(got.out, "fail  two") || !strings.Contains(got.out, "→ mend it") {
		t.Errorf("doctor: %+v", got)
	}
	got = command(t.Context(), nil, node, "template", "build", "x")
	want := "[1/2] packages …\n[1/2] packages: done in 1.5s\n[2/2] boot: cached\ntemplate x is ready ("
	if got.code != 0 || !strings.HasPrefix(got.out, want) {
		t.Errorf("build: %+v", got)
	}
}
