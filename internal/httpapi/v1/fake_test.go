package v1_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/httpapi"
	v1 "pandastack/internal/httpapi/v1"
	"pandastack/internal/panda"
)

const key = "pds_test"

// memory keeps just enough of a sandbox service to see what the edge makes of
// requests and answers. Its one sandbox is "box".
type memory struct {
	cells     // of executions_test.go
	files     map[string][]byte
	created   api.CreateSandbox
	ran       api.Execute
	execution api.Execution
	fail      error // what every call on the sandbox answers

	events      []guestproto.ExecEvent
	streamEnd   error // after the events of a stream
	life        api.Lifecycle
	execStarted chan struct{}
	execEnded   chan error
}

func (m *memory) box(id string) error {
	if m.fail != nil {
		return m.fail
	}
	if id != "box" {
		return &panda.Error{Code: api.CodeSandboxNotFound, Message: "no sandbox has the id " + id}
	}
	return nil
}

func (m *memory) Create(_ context.Context, req api.CreateSandbox) (panda.Sandbox, error) {
	m.created = req
	return panda.Sandbox{
		ID: "box", Template: req.Template, Status: panda.Running, TTL: time.Minute,
		CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Start:     api.Start{Kind: "restored", TotalMS: 41.6},
	}, m.fail
}

func (m *memory) Get(_ context.Context, id string) (panda.Sandbox, error) {
	return panda.Sandbox{ID: id, Status: panda.Running}, m.box(id)
}
func (m *memory) List(context.Context) ([]panda.Sandbox, error) { return nil, m.fail }
func (m *memory) Look(_ context.Context, id string) (panda.Seen, error) {
	return panda.Seen{Usage: &api.Usage{Network: "none"}, Resumed: &api.Resumed{Steps: []api.Step{}}}, m.box(id)
}
func (m *memory) Delete(_ context.Context, id string) error { return m.box(id) }

func (m *memory) CreateContext(_ context.Context, id string, req api.CreateContext) (api.Context, error) {
	return api.Context{ID: "ctx", SandboxID: id, Language: req.Language}, m.box(id)
}
func (m *memory) Contexts(_ context.Context, id string) ([]api.Context, error) { return nil, m.box(id) }
func (m *memory) Context(_ context.Context, id, _ string) (api.Context, error) {
	return api.Context{ID: "ctx"}, m.box(id)
}
func (m *memory) DeleteContext(_ context.Context, id, _ string) error { return m.box(id) }
func (m *memory) Interrupt(_ context.Context, id, _ string) error     { return m.box(id) }

func (m *memory) Execute(_ context.Context, id, _ string, req api.Execute) (api.Execution, error) {
	m.ran = req
	return m.execution, m.box(id)
}
func (m *memory) Execution(_ context.Context, id, _ string, _ *api.OutputBudget) (api.Execution, error) {
	return m.execution, m.box(id)
}

func (m *memory) Exec(ctx context.Context, id string, req api.Exec) (api.ExecResult, error) {
	switch req.Cmd {
	case "wait":
		close(m.execStarted)
		<-ctx.Done()
		m.execEnded <- ctx.Err()
		return api.ExecResult{}, ctx.Err()
	case "panic":
		panic("as asked")
	case "slow":
		return api.ExecResult{}, &panda.Error{Code: api.CodeExecTimeout, Message: "killed after 1 s"}
	case "plain":
		return api.ExecResult{}, errors.New("a secret of the server")
	}
	return api.ExecResult{Stdout: req.Cmd}, m.box(id)
}

func (m *memory) ExecStream(ctx context.Context, id string, req api.Exec, sink func(guestproto.ExecEvent) error) error {
	if err := m.box(id); err != nil {
		return err
	}
	for _, e := range m.events {
		if err := sink(e); err != nil {
			return err
		}
	}
	if req.Cmd == "wait" {
		close(m.execStarted)
		<-ctx.Done()
		m.execEnded <- ctx.Err()
		return ctx.Err()
	}
	return m.streamEnd
}

func (m *memory) Lifecycle(_ context.Context, id string) (api.Lifecycle, error) {
	return m.life, m.box(id)
}

func (m *memory) SetLifecycle(_ context.Context, id string, req api.SetLifecycle) (api.Lifecycle, error) {
	if req.TTLSeconds != nil {
		m.life.TTLSeconds = *req.TTLSeconds
	}
	if req.Persistent != nil {
		m.life.Persistent = *req.Persistent
	}
	return m.life, m.box(id)
}

func (m *memory) Logs(_ context.Context, id, stream string, _ bool, sink func(string) error) error {
	if err := m.box(id); err != nil {
		return err
	}
	return errors.Join(sink(stream), sink("Å"), m.streamEnd)
}

func (m *memory) ReadFile(_ context.Context, id, path string) (guestproto.FileInfo, io.ReadCloser, error) {
	data, ok := m.files[path]
	if !ok {
		return guestproto.FileInfo{}, nil, &panda.Error{Code: api.CodeFileNotFound, Message: "no file " + path}
	}
	info := guestproto.FileInfo{Name: path, Size: int64(len(data)), MTime: 1}
	if path == "/short" {
		info.Size++
	}
	return info, io.NopCloser(bytes.NewReader(data)), m.box(id)
}

func (m *memory) WriteFile(_ context.Context, id, path string, size int64, body io.Reader) (api.FileWritten, error) {
	if err := m.box(id); err != nil {
		return api.FileWritten{}, err
	}
	data, err := io.ReadAll(body)
	m.files[path] = data
	return api.FileWritten{Path: path, Bytes: max(size, int64(len(data)))}, err
}
func (m *memory) ListDir(_ context.Context, id, _ string) ([]api.FileInfo, error) {
	return nil, m.box(id)
}
func (m *memory) Stat(_ context.Context, id, path string) (api.FileInfo, error) {
	return api.FileInfo{Path: path}, m.box(id)
}

type catalogue struct{}

func (catalogue) List(context.Context) ([]api.Template, error) { return nil, nil }
func (catalogue) Get(_ context.Context, name string) (api.Template, error) {
	return api.Template{Name: name}, nil
}

type node struct{}

func (node) Health(context.Context) (api.Health, error) { return api.Health{Status: "ok"}, nil }
func (node) Version() api.Version                       { return api.Version{Version: "test"} }

// edge is a running server in front of memory.
type edge struct {
	*memory
	*httptest.Server
	t        *testing.T
	mux      *httpapi.Mux
	document []byte
	log      *bytes.Buffer
}

func start(t *testing.T) *edge {
	t.Helper()
	e := &edge{t: t, mux: &httpapi.Mux{}, log: &bytes.Buffer{}, memory: &memory{
		files:       map[string][]byte{},
		execStarted: make(chan struct{}),
		execEnded:   make(chan error, 1),
	}}
	doc, err := v1.Register(e.mux, v1.Services{Sandboxes: e.memory, Templates: catalogue{}, Node: node{}})
	if err != nil {
		t.Fatal(err)
	}
	e.document = doc
	server, err := httpapi.New(httpapi.Config{Keys: []string{"pds_other", key}, Log: slog.New(slog.NewTextHandler(e.log, nil))}, e.mux)
	if err != nil {
		t.Fatal(err)
	}
	e.Server = httptest.NewServer(server)
	t.Cleanup(e.Close)
	return e
}

// call sends one request with the key and gives status, headers and body.
func (e *edge) call(method, path, body string, header ...string) (*http.Response, string) {
	e.t.Helper()
	req, err := http.NewRequest(method, e.URL+path, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	resp, err := e.Client().Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	return resp, string(data)
}

// refused checks that an answer is an envelope with this status and code.
func (e *edge) refused(resp *http.Response, body string, status int, code string) api.Error {
	e.t.Helper()
	var got api.Error
	dec := json.NewDecoder(strings.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&got); err != nil {
		e.t.Fatalf("body is not an envelope: %v: %s", err, body)
	}
	if resp.StatusCode != status || got.Code != code {
		e.t.Errorf("got %d %s, want %d %s: %s", resp.StatusCode, got.Code, status, code, body)
	}
	if got.Error == "" || got.Hint == "" {
		e.t.Errorf("an envelope needs a sentence and a hint: %s", body)
	}
	if ct := resp.Header.Get("Content-Type"); ct != "application/json" {
		e.t.Errorf("content type %q, want application/json", ct)
	}
	if resp.Header.Get("X-Request-Id") == "" {
		e.t.Error("no request id")
	}
	return got
}

func (m *memory) Pause(_ context.Context, id string) (panda.Sandbox, error) {
	return panda.Sandbox{ID: id, Status: panda.Paused}, m.box(id)
}
func (m *memory) Hibernate(_ context.Context, id string) (panda.Sandbox, error) {
	return panda.Sandbox{ID: id, Status: panda.Hibernated}, m.box(id)
}
func (m *memory) Wake(_ context.Context, id, from string) (panda.Sandbox, error) {
	return panda.Sandbox{ID: id, Status: panda.Running, Start: api.Start{Kind: from}}, m.box(id)
}
func (m *memory) TakeSnapshot(_ context.Context, id string, req api.TakeSnapshot) (panda.Snapshot, error) {
	return panda.Snapshot{ID: "snap", Name: req.Name, SandboxID: id, Metadata: req.Metadata}, m.box(id)
}
func (m *memory) Snapshots(_ context.Context, sandboxID string) ([]panda.Snapshot, error) {
	return []panda.Snapshot{{ID: "snap", SandboxID: sandboxID}}, m.fail
}
func (m *memory) Snapshot(_ context.Context, id string) (panda.Snapshot, error) {
	return panda.Snapshot{ID: id}, m.fail
}
func (m *memory) DeleteSnapshot(context.Context, string) error { return m.fail }
func (m *memory) Fork(_ context.Context, id string, req api.ForkTree) (string, []panda.Sandbox, error) {
	children := make([]panda.Sandbox, req.Count)
	for i := range children {
		children[i] = panda.Sandbox{ID: "child", ForkParent: id, ForkTree: "tree", Metadata: req.Metadata}
	}
	return "tree", children, m.box(id)
}
func (m *memory) Promote(_ context.Context, id string, req api.Promote) (api.Promoted, error) {
	return api.Promoted{Winner: id, TreeID: req.TreeID}, m.box(id)
}
