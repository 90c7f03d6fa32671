package sandbox

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/panda"
)

func TestEnvironmentOfASandboxReachesContextsAndProcesses(t *testing.T) {
	n := newNode(t)
	sb, err := n.svc.Create(t.Context(), api.CreateSandbox{Env: map[string]string{"A": "sandbox", "B": "sandbox"}})
	if err != nil {
		t.Fatal(err)
	}
	g := n.machine(sb.ID).guest
	c, err := n.svc.CreateContext(t.Context(), sb.ID, api.CreateContext{Env: map[string]string{"B": "call"}})
	if err != nil || c.SandboxID != sb.ID || c.Status != "idle" || c.Language != "python" {
		t.Errorf("CreateContext: got %+v, %v", c, err)
	}
	if g.kernel.Env["A"] != "sandbox" || g.kernel.Env["B"] != "call" {
		t.Errorf("context: got %v", g.kernel.Env)
	}
	g.exec = func(_ context.Context, req guestproto.ExecRequest, sink func(guestproto.ExecEvent) error) error {
		if req.Env["A"] != "sandbox" || req.Env["B"] != "call" {
			t.Errorf("process: got %v", req.Env)
		}
		return sink(guestproto.ExecEvent{Type: guestproto.ExecExit})
	}
	if _, err := n.svc.Exec(t.Context(), sb.ID, api.Exec{Cmd: "true", Env: map[string]string{"B": "call"}}); err != nil {
		t.Errorf("Exec: %v", err)
	}
}

func TestMachineEndsUnderACell(t *testing.T) {
	n := newNode(t)
	sb := n.create()
	m := n.machine(sb.ID)
	m.guest.execute = func(ctx context.Context, _ guestproto.ExecuteRequest, sink func(guestproto.Event) error) error {
		_ = sink(out("half"))
		m.die("killed by signal 9")
		<-ctx.Done() // as a stream that hangs would
		return io.ErrUnexpectedEOF
	}
	_, err := n.svc.Execute(t.Context(), sb.ID, "c", api.Execute{})
	var known *panda.Error
	if !errors.As(err, &known) || known.Code != api.CodeSandboxFailed || known.Message != "the virtual machine ended: killed by signal 9" {
		t.Fatalf("Execute: got %v, want sandbox.failed and what happened", err)
	}
	if known.Detail["stdout"] != "half" {
		t.Errorf("detail: got %v, want what was printed", known.Detail)
	}
}

func TestSandboxIsDeletedUnderACell(t *testing.T) {
	n := newNode(t)
	sb := n.create()
	running := make(chan struct{})
	n.machine(sb.ID).guest.execute = func(ctx context.Context, _ guestproto.ExecuteRequest, _ func(guestproto.Event) error) error {
		close(running)
		<-ctx.Done()
		return ctx.Err()
	}
	executed := make(chan error)
	go func() {
		_, err := n.svc.Execute(t.Context(), sb.ID, "c", api.Execute{})
		executed <- err
	}()
	<-running
	if err := n.svc.Delete(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	if err := <-executed; panda.CodeOf(err) != api.CodeSandboxNotFound {
		t.Errorf("Execute: got %v, want sandbox.not_found", err)
	}
}

func TestBrokenAgentOfALiveMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		sb := n.create()
		n.machine(sb.ID).guest.execute = func(context.Context, guestproto.ExecuteRequest, func(guestproto.Event) error) error {
			return io.ErrUnexpectedEOF
		}
		_, err := n.svc.Execute(t.Context(), sb.ID, "c", api.Execute{})
		if panda.CodeOf(err) != api.CodeGuestUnreachable {
			t.Errorf("transport: got %v, want guest.unreachable", err)
		}
		n.machine(sb.ID).guest.execute = func(context.Context, guestproto.ExecuteRequest, func(guestproto.Event) error) error { return nil }
		_, err = n.svc.Execute(t.Context(), sb.ID, "c", api.Execute{})
		if panda.CodeOf(err) != api.CodeGuestUnreachable {
			t.Errorf("no last event: got %v, want guest.unreachable", err)
		}
		n.close()
	})
}

func TestExecutionSoFarAndWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		sb := n.create()
		finish := make(chan struct{})
		n.machine(sb.ID).guest.described = guestproto.Execution{ID: "mine", Kernel: "ctx", Status: "running", TimeoutMS: 7000}
		n.machine(sb.ID).guest.execute = func(ctx context.Context, _ guestproto.ExecuteRequest, sink func(guestproto.Event) error) error {
			_ = sink(out("one "))
			select {
			case <-finish:
			case <-ctx.Done():
				return ctx.Err()
			}
			_ = sink(out("two"))
			return sink(done(`{"status":"timeout","kernel":"ctx","timeout_ms":7000}`))
		}
		n.machine(sb.ID).guest.replay = func(sink func(guestproto.Event) error) error {
			_ = sink(out("one "))
			select {
			case <-finish:
				_ = sink(out("two"))
				return sink(done(`{"status":"timeout","kernel":"ctx","timeout_ms":7000}`))
			default:
				return nil
			}
		}
		executed := make(chan api.Execution)
		go func() {
			ex, err := n.svc.Execute(t.Context(), sb.ID, "ctx", api.Execute{ID: "mine", TimeoutSeconds: 7})
			if err != nil {
				t.Errorf("Execute: %v", err)
			}
			executed <- ex
		}()
		synctest.Wait()
		got, err := n.svc.Execution(t.Context(), sb.ID, "mine", nil)
		if err != nil || got.Status != "running" || got.Stdout != "one " || got.ContextID != "ctx" || got.Error != nil {
			t.Errorf("so far: got %+v, %v", got, err)
		}
		close(finish)
		first := <-executed
		got, err = n.svc.Execution(t.Context(), sb.ID, "mine", nil)
		if err != nil || got.Status != "timeout" || got.Stdout != "one two" || !strings.Contains(got.Error.Value, "7 s") {
			t.Errorf("whole: got %+v, %v", got, err)
		}
		if inJSON(first) != inJSON(got) {
			t.Errorf("Execute and Execution differ:\n%s\n%s", inJSON(first), inJSON(got))
		}
		again, err := n.svc.Execute(t.Context(), sb.ID, "other", api.Execute{ID: "mine"})
		if err != nil || again.ContextID != "ctx" {
			t.Errorf("attached: got %+v, %v, want the first one's context", again, err)
		}
		n.close()
	})
}

func TestCallerWhoLeaves(t *testing.T) {
	n := newNode(t)
	sb := n.create()
	ctx, cancel := context.WithCancel(t.Context())
	n.machine(sb.ID).guest.execute = func(ctx context.Context, _ guestproto.ExecuteRequest, _ func(guestproto.Event) error) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}
	if _, err := n.svc.Execute(ctx, sb.ID, "c", api.Execute{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Execute: got %v, want context.Canceled", err)
	}
}

func TestExec(t *testing.T) {
	n := newNode(t, func(c *Config) { c.Limits.ExecBytes = 4 })
	sb := n.create()
	g := n.machine(sb.ID).guest
	var exit guestproto.ExecEvent
	g.exec = func(_ context.Context, _ guestproto.ExecRequest, sink func(guestproto.ExecEvent) error) error {
		_ = sink(guestproto.ExecEvent{Type: guestproto.ExecStdout, Data: []byte("abcdef")})
		_ = sink(guestproto.ExecEvent{Type: guestproto.ExecStderr, Data: []byte{'e', 0xff}})
		exit.Type = guestproto.ExecExit
		return sink(exit)
	}
	exit = guestproto.ExecEvent{ExitCode: -1, Signal: "SIGTERM", DurationMS: 2}
	got, err := n.svc.Exec(t.Context(), sb.ID, api.Exec{Argv: []string{"x"}})
	if err != nil || got.ExitCode != 143 || got.Stdout != "abef" || got.Stderr != "e\uFFFD" || got.Truncated.Stdout.Bytes != 6 || got.Truncated.Stderr != nil {
		t.Errorf("killed: got %s, %v", inJSON(got), err)
	}
	exit = guestproto.ExecEvent{TimedOut: true, ExitCode: -1, Signal: "SIGKILL"}
	_, err = n.svc.Exec(t.Context(), sb.ID, api.Exec{Cmd: "x", TimeoutSeconds: 1.5})
	var known *panda.Error
	if !errors.As(err, &known) || known.Code != api.CodeExecTimeout || known.Detail["stdout"] != "abef" || !strings.Contains(known.Message, "1.5 s") {
		t.Errorf("timeout: got %v", err)
	}
	for _, req := range []api.Exec{{}, {Cmd: "a", Argv: []string{"a"}}, {Cmd: "a", TimeoutSeconds: -1}, {Cmd: "a", TimeoutSeconds: 1e300}} {
		if _, err := n.svc.Exec(t.Context(), sb.ID, req); panda.CodeOf(err) != api.CodeRequestInvalid {
			t.Errorf("%+v: got %v, want request.invalid", req, err)
		}
	}
}

func TestSignalNumber(t *testing.T) {
	for name, want := range map[string]int{"SIGKILL": 9, "killed": 9, "SIGSEGV": 11, "segmentation fault": 11, "": 0, "nonsense": 0} {
		if got := signalNumber(name); got != want {
			t.Errorf("signalNumber(%q): got %d, want %d", name, got, want)
		}
	}
}

func TestUpload(t *testing.T) {
	n := newNode(t)
	sb := n.create()
	g := n.machine(sb.ID).guest
	g.write = func(body io.Reader) (guestproto.FileInfo, error) {
		size, err := io.Copy(io.Discard, body)
		return guestproto.FileInfo{Size: size}, err
	}
	for _, size := range []int64{-1, 5} {
		got, err := n.svc.WriteFile(t.Context(), sb.ID, "a", size, strings.NewReader("12345"))
		if want := (api.FileWritten{Path: "a", Bytes: 5}); err != nil || got != want {
			t.Errorf("size %d: got %v, %v, want %v", size, got, err, want)
		}
	}
	_, err := n.svc.WriteFile(t.Context(), sb.ID, "a", 6, strings.NewReader("12345"))
	if panda.CodeOf(err) != api.CodeRequestInvalid {
		t.Errorf("short body: got %v, want request.invalid", err)
	}
	g.write = func(io.Reader) (guestproto.FileInfo, error) {
		return guestproto.FileInfo{}, &guestproto.Error{Code: guestproto.CodeNoSpace, Message: "full"}
	}
	_, err = n.svc.WriteFile(t.Context(), sb.ID, "a", 5, strings.NewReader("12345"))
	if panda.CodeOf(err) != api.CodeFileNoSpace {
		t.Errorf("full disk: got %v, want file.no_space", err)
	}
	for _, path := range []string{"", "a\x00", strings.Repeat("a", guestproto.MaxPath+1)} {
		_, err := n.svc.WriteFile(t.Context(), sb.ID, path, 5, strings.NewReader("12345"))
		if panda.CodeOf(err) != api.CodeFilePathInvalid {
			t.Errorf("path %.10q: got %v, want file.path_invalid", path, err)
		}
	}
}

func TestMachineEndsUnderADownload(t *testing.T) {
	n := newNode(t)
	sb := n.create()
	m := n.machine(sb.ID)
	m.guest.read = func(ctx context.Context) (guestproto.FileInfo, io.ReadCloser, error) {
		r, w := io.Pipe()
		context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
		go func() { _, _ = w.Write([]byte("half")) }()
		return guestproto.FileInfo{Size: 8}, r, nil
	}
	info, body, err := n.svc.ReadFile(t.Context(), sb.ID, "a")
	if err != nil || info.Size != 8 {
		t.Fatalf("ReadFile: %v, %v", info, err)
	}
	defer body.Close()
	if _, err := io.ReadFull(body, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	m.die("killed")
	if _, err := io.ReadAll(body); panda.CodeOf(err) != api.CodeSandboxFailed {
		t.Errorf("Read: got %v, want sandbox.failed", err)
	}
}

func TestRefusalsOfTheAgent(t *testing.T) {
	cases := []struct {
		about      subject
		code, want string
	}{
		{aboutFile, guestproto.CodeNotFound, api.CodeFileNotFound},
		{aboutFile, guestproto.CodeInvalid, api.CodeFilePathInvalid},
		{aboutFile, guestproto.CodePathEscape, api.CodeFilePathInvalid},
		{aboutFile, guestproto.CodeIsDirectory, api.CodeFileIsDirectory},
		{aboutFile, guestproto.CodeNotDir, api.CodeFileNotDirectory},
		{aboutFile, guestproto.CodePermission, api.CodeFilePermission},
		{aboutContext, guestproto.CodeNotFound, api.CodeContextNotFound},
		{aboutNewContext, guestproto.CodeUnsupported, api.CodeContextUnsupportedLanguage},
		{aboutContext, guestproto.CodeInvalid, api.CodeRequestInvalid},
		{aboutNewContext, guestproto.CodeLimit, api.CodeContextLimit},
		{aboutNewContext, guestproto.CodeNotFound, api.CodeFileNotFound},
		{aboutFile, guestproto.CodeInternal, api.CodeFilePathInvalid},
		{aboutExecution, guestproto.CodeNotFound, api.CodeExecutionNotFound},
		{aboutProcess, guestproto.CodeNotFound, api.CodeFileNotFound},
		{aboutProcess, guestproto.CodeUnsupported, api.CodeFeatureNotOffered},
		{aboutProcess, "sandbox.capacity", api.CodeInternal},
	}
	for _, c := range cases {
		if got := codeOf(c.about, c.code); got != c.want {
			t.Errorf("codeOf(%d, %s): got %s, want %s", c.about, c.code, got, c.want)
		}
	}
	n := newNode(t)
	sb := n.create()
	n.machine(sb.ID).guest.statErr = &guestproto.Error{Code: guestproto.CodeNotFound, Message: "no such file: /a" + strings.Repeat("!", 1<<20)}
	_, err := n.svc.Stat(t.Context(), sb.ID, "/a")
	var known *panda.Error
	if !errors.As(err, &known) || known.Code != api.CodeFileNotFound || len(known.Message) > 1000 {
		t.Errorf("Stat: got %.100v, want file.not_found, shortened", err)
	}
	if _, err := n.svc.CreateContext(t.Context(), sb.ID, api.CreateContext{Language: "cobol"}); panda.CodeOf(err) != api.CodeContextUnsupportedLanguage {
		t.Errorf("CreateContext: got %v, want context.unsupported_language", err)
	}
	if _, err := n.svc.Context(t.Context(), sb.ID, "k2"); panda.CodeOf(err) != api.CodeContextNotFound {
		t.Errorf("Context: got %v, want context.not_found", err)
	}
	if c, err := n.svc.Context(t.Context(), sb.ID, "k1"); err != nil || c.Status != "idle" {
		t.Errorf("Context: got %v, %v", c, err)
	}
}
