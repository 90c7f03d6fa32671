package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"pandastack/api"
)

func events(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, text)
	}
}

func TestExec(t *testing.T) {
	a := newAnswers(t)
	const out = "event: stdout\ndata: {\"chunk\":\"gr\\u00fcn\\n\"}\n\nevent: stderr\ndata: {\"chunk\":\"oh\\n\"}\n\n"
	for _, c := range []struct {
		name, events string
		code         int
		errOut       string
	}{
		{"exit code", out + "event: exit\ndata: {\"exit_code\":7}\n\n", 7, "oh\n"},
		{"signal", out + "event: exit\ndata: {\"exit_code\":137,\"signal\":\"SIGKILL\"}\n\n", 137, "oh\n"},
		{"timeout", out + "event: error\ndata: {\"error\":\"timeout\",\"code\":\"exec.timeout\"}\n\nevent: exit\ndata: {\"exit_code\":137,\"timed_out\":true}\n\n",
			124, "oh\npandastack: the command ran longer than 9 s and was killed\n"},
		{"failed sandbox", out + "event: error\ndata: {\"error\":\"it died\",\"code\":\"sandbox.failed\",\"hint\":\"Go.\"}\n\n",
			1, "oh\npandastack: it died (sandbox.failed) — Go.\n"},
	} {
		a.routes = map[string]http.HandlerFunc{"POST /v1/sandboxes/box1/exec/stream": events(c.events)}
		got := a.command(t.Context(), "exec", "--timeout", "9", "box1", "--", "x")
		if got.code != c.code || got.out != "grün\n" || got.errOut != c.errOut {
			t.Errorf("%s: %+v, want code %d, %q", c.name, got, c.code, c.errOut)
		}
	}
	a.routes = map[string]http.HandlerFunc{"POST /v1/sandboxes/box1/exec/stream": events(out)}
	got := a.command(t.Context(), "exec", "box1", "x")
	if got.code != 1 || !strings.Contains(got.errOut, "without saying how it exited") {
		t.Errorf("cut off: %+v", got)
	}
	a.routes["POST /v1/sandboxes/box1/exec/stream"] = func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 404, api.Error{Error: "x: command not found", Code: api.CodeFileNotFound, Hint: "List the folder."})
	}
	if got := a.command(t.Context(), "exec", "box1", "x"); got.code != 127 || got.errOut != "pandastack: x: command not found (file.not_found)\n" {
		t.Errorf("no such command: %+v", got)
	}
}

func TestExecHandsOnItsCommandAndStdin(t *testing.T) {
	a := newAnswers(t)
	var got api.Exec
	a.routes = map[string]http.HandlerFunc{"POST /v1/sandboxes/box1/exec/stream": func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewDecoder(r.Body).Decode(&got)
		events("event: exit\ndata: {\"exit_code\":0}\n\n")(w, r)
	}}
	if r := a.command(t.Context(), "exec", "-e", "A=1,B=2", "--cwd", "/tmp", "box1", "--", "ls", "--all", "-l"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	want := api.Exec{Argv: []string{"ls", "--all", "-l"}, Cwd: "/tmp", Env: map[string]string{"A": "1,B=2"}, Stdin: "print(1)"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("asked for %+v, want %+v", got, want)
	}
	got = api.Exec{}
	if r := a.command(t.Context(), "exec", "-n", "box1", "cat"); r.code != 0 || got.Stdin != "" {
		t.Errorf("with -n: %+v, stdin %q", r, got.Stdin)
	}
}

func TestLogs(t *testing.T) {
	a := newAnswers(t)
	query := ""
	a.routes = map[string]http.HandlerFunc{"GET /v1/sandboxes/box1/logs": func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		if r.URL.Query().Get("follow") == "true" {
			events("data: {\"line\":\"one\"}\n\n: beat\n\ndata: {\"line\":\"two\"}\n\n")(w, r)
			return
		}
		fmt.Fprint(w, "one\x1b[2J\r\ntwo")
	}}
	if got := a.command(t.Context(), "logs", "box1"); got.code != 0 || got.out != "one [2J\ntwo\n" || query != "stream=both" {
		t.Errorf("%+v (%s)", got, query)
	}
	if got := a.command(t.Context(), "logs", "-f", "--agent", "box1"); got.code != 0 || got.out != "one\ntwo\n" || query != "follow=true&stream=agent" {
		t.Errorf("%+v (%s)", got, query)
	}
}
