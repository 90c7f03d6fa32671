package v1_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/panda"
)

const execStream = "/v1/sandboxes/box/exec/stream"

func TestExecStream(t *testing.T) {
	e := start(t)
	e.events = []guestproto.ExecEvent{
		{Type: guestproto.ExecStdout, Data: []byte("a\xc3")},
		{Type: guestproto.ExecStderr, Data: []byte("\xff")},
		{Type: guestproto.ExecStdout, Data: []byte("\x85\u0085🐼\xf0\x9f")},
		{Type: guestproto.ExecExit, ExitCode: 137, Signal: "SIGKILL", DurationMS: 1.5},
	}
	resp, body := e.call("POST", execStream, `{"cmd":"x"}`)
	want := `event: stdout
data: {"chunk":"a"}

event: stderr
data: {"chunk":"\ufffd"}

event: stdout
data: {"chunk":"\u00c5\u0085\ud83d\udc3c"}

event: stdout
data: {"chunk":"\ufffd"}

event: exit
data: {"exit_code":137,"signal":"SIGKILL","duration_ms":1.5}

`
	if ct := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || ct != "text/event-stream; charset=utf-8" || body != want {
		t.Errorf("got %d %s\n%s\nwant\n%s", resp.StatusCode, ct, body, want)
	}
}

func TestExecStreamSaysTimeout(t *testing.T) {
	e := start(t)
	e.events = []guestproto.ExecEvent{{Type: guestproto.ExecExit, ExitCode: 143, Signal: "SIGTERM", TimedOut: true}}
	_, body := e.call("POST", execStream, `{"cmd":"x","timeout_seconds":1.5}`)
	const want = `event: error
data: {"error":"timeout: the process ran longer than 1.5 s and was killed","code":"exec.timeout","hint":"Give a larger timeout_seconds."}

event: exit
data: {"exit_code":143,"signal":"SIGTERM","timed_out":true,"duration_ms":0}

`
	if body != want {
		t.Errorf("got\n%s\nwant\n%s", body, want)
	}
}

func TestExecStreamRefusedBeforeItBegins(t *testing.T) {
	e := start(t)
	resp, body := e.call("POST", "/v1/sandboxes/nope/exec/stream", `{"cmd":"x"}`)
	e.refused(resp, body, 404, api.CodeSandboxNotFound)
	resp, body = e.call("POST", execStream, `{}`)
	e.refused(resp, body, 422, api.CodeRequestInvalid)
	e.streamEnd = &panda.Error{Code: api.CodeFileNotFound, Message: "no such folder"}
	resp, body = e.call("POST", execStream, `{"cmd":"x"}`)
	e.refused(resp, body, 404, api.CodeFileNotFound)
}

func TestExecStreamThatBreaks(t *testing.T) {
	e := start(t)
	e.events = []guestproto.ExecEvent{{Type: guestproto.ExecStdout, Data: []byte("half")}}
	e.streamEnd = &panda.Error{Code: api.CodeSandboxFailed, Message: "the machine ended"}
	_, body := e.call("POST", execStream, `{"cmd":"x"}`)
	if !strings.Contains(body, `{"chunk":"half"}`) || !strings.Contains(body, "event: error\ndata: {\"error\":\"the machine ended\",\"code\":\"sandbox.failed\"") || strings.Contains(body, "event: exit") {
		t.Errorf("got %s, want the output, an error and no exit", body)
	}
}

// TestExecStreamFlowsAndEndsWithItsClient reads the first chunk while the
// process runs, then leaves.
func TestExecStreamFlowsAndEndsWithItsClient(t *testing.T) {
	e := start(t)
	e.events = []guestproto.ExecEvent{{Type: guestproto.ExecStdout, Data: []byte("first")}}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, "POST", e.URL+execStream, strings.NewReader(`{"cmd":"wait"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := e.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for _, want := range []string{"event: stdout\n", "data: {\"chunk\":\"first\"}\n"} {
		if got, err := lines.ReadString('\n'); got != want || err != nil {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
	leave()
	if err := <-e.execEnded; err != context.Canceled {
		t.Errorf("the process's context: got %v, want canceled", err)
	}
}

// TestSilentStreamSaysThatItIsThere waits for the comment that begins an answer
// without events.
func TestSilentStreamSaysThatItIsThere(t *testing.T) {
	e := start(t)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, "POST", e.URL+execStream, strings.NewReader(`{"cmd":"wait"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := e.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := make([]byte, 3)
	if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != ":\n\n" {
		t.Errorf("got %q, %v, want a comment", got, err)
	}
	leave()
	<-e.execEnded
}

func TestLogs(t *testing.T) {
	e := start(t)
	for query, want := range map[string]string{
		"":                        "both\nÅ\n",
		"?stream=stdout&follow=0": "stdout\nÅ\n",
		"?stream=stderr":          "agent\nÅ\n",
		"?follow=true":            "data: {\"line\":\"both\"}\n\ndata: {\"line\":\"\\u00c5\"}\n\n",
	} {
		resp, body := e.call("GET", "/v1/sandboxes/box/logs"+query, "")
		if resp.StatusCode != 200 || body != want || !strings.HasSuffix(resp.Header.Get("Content-Type"), "; charset=utf-8") {
			t.Errorf("%s: got %d %s %q, want %q", query, resp.StatusCode, resp.Header.Get("Content-Type"), body, want)
		}
	}
	resp, body := e.call("GET", "/v1/sandboxes/box/logs?stream=other", "")
	e.refused(resp, body, 422, api.CodeRequestInvalid)
	resp, body = e.call("GET", "/v1/sandboxes/nope/logs?follow=1", "")
	e.refused(resp, body, 404, api.CodeSandboxNotFound)
}

func TestLifecycle(t *testing.T) {
	e := start(t)
	const path = "/v1/sandboxes/box/lifecycle"
	_, _ = e.call("PATCH", path, `{"ttl_seconds":60}`)
	_, _ = e.call("PATCH", path, `{"persistent":true}`)
	resp, body := e.call("GET", path, "")
	if want := `{"ttl_seconds":60,"persistent":true,"idle_seconds":0,"idle_timeout_seconds":0,"on_timeout":"","auto_wake":false}`; resp.StatusCode != 200 || strings.TrimSpace(body) != want {
		t.Errorf("got %d %s, want %s", resp.StatusCode, body, want)
	}
	for _, wrong := range []string{`{"ttl_seconds":-1}`, `{"ttl_seconds":"1"}`, `{"idle_seconds":1}`} {
		resp, body := e.call("PATCH", path, wrong)
		e.refused(resp, body, 422, api.CodeRequestInvalid)
	}
}
