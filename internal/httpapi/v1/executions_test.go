package v1_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"pandastack/api"
	v1 "pandastack/internal/httpapi/v1"
	"pandastack/internal/panda"
)

// cells are the executions of memory: each call gives the same events.
type cells struct {
	cellEvents []api.ExecutionEvent
	cellEnd    error // after the events
	after      int64
	until      string
	budget     *api.OutputBudget
	answers    []string
	answered   chan struct{} // nil, or closed by the first answer to a question
	cancelled  bool
	asked      any
}

func (m *memory) RestartContext(_ context.Context, id, contextID string) (api.Context, error) {
	return api.Context{ID: contextID, Restarts: 1}, m.box(id)
}

func (m *memory) Queue(_ context.Context, id, contextID string, req api.Execute) (api.ExecutionInfo, error) {
	m.ran = req
	return api.ExecutionInfo{ID: req.ID, ContextID: contextID, Status: "queued", Position: 1}, m.box(id)
}

func (m *memory) Executions(_ context.Context, id, _ string) ([]api.ExecutionInfo, error) {
	return nil, m.box(id)
}

func (m *memory) Run(_ context.Context, id, _ string, req api.Execute, sink func(api.ExecutionEvent) error) error {
	m.ran = req
	return m.tell(id, sink)
}

func (m *memory) Follow(_ context.Context, id, _ string, how api.Follow, sink func(api.ExecutionEvent) error) error {
	m.after, m.until, m.budget = how.After, how.Until, how.Output
	return m.tell(id, sink)
}

func (m *memory) tell(id string, sink func(api.ExecutionEvent) error) error {
	if err := m.box(id); err != nil {
		return err
	}
	for _, e := range m.cellEvents {
		if e.Type == "done" && m.answered != nil {
			<-m.answered
		}
		if err := sink(e); err != nil {
			return err
		}
	}
	return m.cellEnd
}

func (m *memory) Output(_ context.Context, id, _, stream string, write func(string) error) error {
	if err := m.box(id); err != nil {
		return err
	}
	return errors.Join(write(stream), write(" Å\n"), m.cellEnd)
}

func (m *memory) CancelExecution(_ context.Context, id, _ string) error {
	m.cancelled = true
	return m.box(id)
}

func (m *memory) Input(_ context.Context, id, _, text string) error {
	m.answers = append(m.answers, text)
	if m.answered != nil {
		close(m.answered)
	}
	return m.box(id)
}

func (m *memory) Complete(_ context.Context, id, _ string, req api.Complete) (api.Completion, error) {
	m.asked = req
	return api.Completion{Matches: []string{"print"}, CursorEnd: 2}, m.box(id)
}

func (m *memory) Inspect(_ context.Context, id, _ string, req api.Inspect) (api.Inspection, error) {
	m.asked = req
	return api.Inspection{}, m.box(id)
}

func (m *memory) IsComplete(_ context.Context, id, _ string, req api.IsComplete) (api.Completeness, error) {
	m.asked = req
	return api.Completeness{Status: "complete"}, m.box(id)
}

func (m *memory) History(_ context.Context, id, _ string, n int) (api.History, error) {
	m.asked = n
	return api.History{}, m.box(id)
}

func TestWhatKindOfAnswerIsWanted(t *testing.T) {
	for accept, events := range map[string]bool{
		"": false, "*/*": false, "text/event-stream": true, "TEXT/Event-Stream; charset=utf-8": true, "text/event-stream;q=0": false,
		"application/json, text/event-stream;q=0.1": false, "application/json;q=0.5, text/event-stream": true, "text/event-stream, application/json": true,
		"text/event-streams": false, ";;,": false,
	} {
		if got := v1.WantsEvents(accept); got != events {
			t.Errorf("Accept: %s: got %t", accept, got)
		}
	}
}

const (
	runs = "/v1/sandboxes/box/contexts/ctx/executions"
	cell = "/v1/sandboxes/box/executions/x"
)

var told = []api.ExecutionEvent{
	{Seq: 1, Type: "stdout", Text: "Å\r"},
	{Seq: 2, Type: "done", Execution: &api.Execution{ID: "x", Status: "ok", Stdout: "Å\r"}},
}

const toldStream = `id: 1
event: stdout
data: {"seq":1,"type":"stdout","text":"\u00c5\r"}

id: 2
event: done
data: {"seq":2,"type":"done","execution":{"id":"x","context_id":"","status":"ok","execution_count":0,"results":[],"stdout":"\u00c5\r","stderr":"","error":null,"duration_ms":0,"context_restarted":false}}

`

func TestMessageToAComm(t *testing.T) {
	const comms = "/v1/sandboxes/box/contexts/ctx/comms"
	e := start(t)
	body := `{"comm":{"msg_type":"comm_msg","comm_id":"c","data":{"method":"update"},"buffers":["AAE="]},"timeout_seconds":3}`
	resp, _ := e.call("POST", comms, body, "Idempotency-Key", "mine")
	if c := e.ran.Comm; resp.StatusCode != 200 || c == nil || c.CommID != "c" || string(c.Data["method"]) != `"update"` || c.Buffers[0] != "AAE=" || e.ran.ID != "mine" || e.ran.TimeoutSeconds != 3 {
		t.Errorf("got %d, %+v", resp.StatusCode, e.ran)
	}
	if resp, _ := e.call("POST", comms, `{"comm":{"msg_type":"comm_close","comm_id":"c"},"detached":true}`); resp.StatusCode != 202 {
		t.Errorf("detached: got %d", resp.StatusCode)
	}
	e.cellEvents = told
	if _, body := e.call("POST", comms, `{"comm":{"msg_type":"comm_open","comm_id":"c","target_name":"t"}}`, "Accept", "text/event-stream"); body != toldStream {
		t.Errorf("got %s", body)
	}
	for _, bad := range []string{
		`{}`, `{"comm":{"msg_type":"comm_msg"}}`, `{"comm":{"msg_type":"execute_request","comm_id":"c"}}`, `{"comm":{"msg_type":"comm_msg","comm_id":""}}`,
		`{"comm":{"msg_type":"comm_msg","comm_id":"c","data":[]}}`, `{"comm":{"msg_type":"comm_msg","comm_id":"c","code":"1"}}`, `{"comm":{"msg_type":"comm_msg","comm_id":"c"},"code":"1"}`,
	} {
		resp, body := e.call("POST", comms, bad)
		e.refused(resp, body, 422, api.CodeRequestInvalid)
	}
}

func TestCellThatIsStreamed(t *testing.T) {
	e := start(t)
	e.cellEvents = told
	resp, body := e.call("POST", runs, `{"code":"1"}`, "Accept", "text/event-stream", "Idempotency-Key", "mine")
	if ct := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || ct != "text/event-stream; charset=utf-8" || body != toldStream || e.ran.ID != "mine" {
		t.Errorf("got %d %s %+v\n%s", resp.StatusCode, ct, e.ran, body)
	}
	resp, body = e.call("GET", cell+"/events?after=7&stream_bytes=9", "")
	if resp.StatusCode != 200 || body != toldStream || e.after != 7 || e.budget.StreamBytes != 9 {
		t.Errorf("got %d, after %d, %+v\n%s", resp.StatusCode, e.after, e.budget, body)
	}
	if _, _ = e.call("GET", cell+"/events", "", "Last-Event-ID", "8"); e.after != 8 {
		t.Errorf("Last-Event-ID: got after %d", e.after)
	}
	if e.until != api.FollowDone {
		t.Errorf("followed until %q", e.until)
	}
	if _, _ = e.call("GET", cell+"/events?follow=all", ""); e.until != api.FollowAll {
		t.Errorf("followed until %q", e.until)
	}
	resp, body = e.call("GET", cell+"/events?follow=ever", "")
	e.refused(resp, body, 422, api.CodeRequestInvalid)
	e.cellEvents, e.cellEnd = told[:1], &panda.Error{Code: api.CodeSandboxFailed, Message: "it ended"}
	if _, body = e.call("GET", cell+"/events", ""); !strings.Contains(body, "event: failure\ndata: {\"error\":\"it ended\",\"code\":\"sandbox.failed\"") {
		t.Errorf("got %s", body)
	}
	for _, after := range []string{"-1", "x", "9999999999999999999"} {
		resp, body = e.call("GET", cell+"/events?after="+after, "")
		e.refused(resp, body, 422, api.CodeRequestInvalid)
	}
	resp, body = e.call("GET", "/v1/sandboxes/nope/executions/x/events", "")
	e.refused(resp, body, 404, api.CodeSandboxNotFound)
}

func TestCellThatIsDetached(t *testing.T) {
	e := start(t)
	resp, body := e.call("POST", runs, `{"code":"1","id":"mine","detached":true}`)
	var info api.ExecutionInfo
	if err := json.Unmarshal([]byte(body), &info); err != nil || resp.StatusCode != 202 || info.ID != "mine" || info.Status != "queued" {
		t.Errorf("got %d %s, %v", resp.StatusCode, body, err)
	}
	resp, body = e.call("POST", runs, `{"code":"1","id":"mine"}`, "Idempotency-Key", "other")
	e.refused(resp, body, 422, api.CodeRequestInvalid)
	resp, body = e.call("POST", runs, `{"code":"1"}`, "Idempotency-Key", "no key at all")
	e.refused(resp, body, 422, api.CodeRequestInvalid)
	if resp, body = e.call("GET", runs, ""); resp.StatusCode != 200 || strings.TrimSpace(body) != `{"items":[]}` {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
}

func TestCellFollowedByWebSocket(t *testing.T) {
	e := start(t)
	e.cellEvents, e.answered = told, make(chan struct{})
	header := http.Header{"Authorization": {"Bearer " + key}}
	socket, _, err := websocket.Dial(t.Context(), e.URL+cell+"/events?after=3", &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.CloseNow()
	hear := func() (m struct{ Type, Text string }) {
		t.Helper()
		_, data, err := socket.Read(t.Context())
		if err != nil || json.Unmarshal(data, &m) != nil {
			t.Fatalf("got %s, %v", data, err)
		}
		return m
	}
	if m := hear(); m.Type != "stdout" || m.Text != "Å\r" {
		t.Errorf("got %+v", m)
	}
	for _, message := range []string{`{"type":"what"}`, `{`} {
		if err := socket.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
			t.Fatal(err)
		}
		if m := hear(); m.Type != "refused" {
			t.Errorf("%s: got %+v", message, m)
		}
	}
	if err := socket.Write(t.Context(), websocket.MessageText, []byte(`{"type":"input","text":"ü"}`)); err != nil {
		t.Fatal(err)
	}
	if m := hear(); m.Type != "done" {
		t.Errorf("got %+v", m)
	}
	if _, _, err := socket.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("got %v, want a normal end", err)
	}
	if e.after != 3 || len(e.answers) != 1 || e.answers[0] != "ü" {
		t.Errorf("got after %d, answers %q", e.after, e.answers)
	}
}

func TestOutputOfACell(t *testing.T) {
	e := start(t)
	resp, body := e.call("GET", cell+"/output?stream=stderr", "")
	if ct := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || body != "stderr Å\n" || ct != "text/plain; charset=utf-8" {
		t.Errorf("got %d %s %q", resp.StatusCode, ct, body)
	}
	resp, body = e.call("GET", cell+"/output?stream=both", "")
	e.refused(resp, body, 422, api.CodeRequestInvalid)
	resp, body = e.call("GET", "/v1/sandboxes/nope/executions/x/output", "")
	e.refused(resp, body, 404, api.CodeSandboxNotFound)
}

func TestSmallCallsOnCellsAndContexts(t *testing.T) {
	e := start(t)
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", cell + "/cancel", "", 204, ""},
		{"POST", cell + "/input", `{"text":"Å"}`, 204, ""},
		{"POST", "/v1/sandboxes/box/contexts/ctx/restart", "", 200, `"restarts":1`},
		{"POST", "/v1/sandboxes/box/contexts/ctx/complete", `{"code":"pr","cursor_pos":2}`, 200, `{"matches":["print"],"cursor_start":0,"cursor_end":2}`},
		{"POST", "/v1/sandboxes/box/contexts/ctx/inspect", `{"code":"pr","detail":1}`, 200, `"found":false`},
		{"POST", "/v1/sandboxes/box/contexts/ctx/is_complete", `{"code":"pr"}`, 200, `"complete"`},
		{"GET", "/v1/sandboxes/box/contexts/ctx/history", "", 200, `{"items":[]}`},
	} {
		if resp, body := e.call(c.method, c.path, c.body); resp.StatusCode != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s %s: got %d %s", c.method, c.path, resp.StatusCode, body)
		}
	}
	if !e.cancelled || len(e.answers) != 1 || e.asked != 100 {
		t.Errorf("got %v, %q, %v", e.cancelled, e.answers, e.asked)
	}
	resp, body := e.call("GET", "/v1/sandboxes/box/contexts/ctx/history?limit=0", "")
	e.refused(resp, body, 422, api.CodeRequestInvalid)
}
