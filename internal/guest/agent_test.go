package guest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"pandastack/internal/guestproto"
)

// binary is the agent, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "pandastack-guest-test-")
		if err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		binary = filepath.Join(dir, "pandastack-guest")
		build := exec.Command("go", "build", "-trimpath", fmt.Sprintf("-race=%t", raced), "-o", binary, "pandastack/cmd/pandastack-guest")
		if build.Env = os.Environ(); !raced {
			build.Env = append(build.Env, "CGO_ENABLED=0")
		}
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the agent: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// agent is a running agent, as a process, and the client that calls it.
type agent struct {
	*guestproto.Client
	Root string // its workspace is Root/workspace
	PID  int
}

func start(t testing.TB, args ...string) *agent {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs := os.NewFile(uintptr(fds[0]), "host"), os.NewFile(uintptr(fds[1]), "guest")
	host, err := net.FileConn(mine)
	if err != nil {
		t.Fatal(err)
	}
	_ = mine.Close()
	root := t.TempDir()
	var output bytes.Buffer
	cmd := exec.Command(binary, append([]string{"--listen-fd", "3", "--root", root}, args...)...)
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	transport := guestproto.Transport(guestproto.NewPort(host).Dial)
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = host.Close()
		kill := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Logf("agent: %v\n%s", err, output.String())
		}
		if err != nil {
			t.Errorf("the agent did not end by itself: %v", err)
		}
	})
	a := &agent{guestproto.NewClient(transport, "http://guest"), root, cmd.Process.Pid}
	if _, err := a.Hello(deadline(t)); err != nil {
		t.Fatal(err)
	}
	return a
}

// startPython starts an agent with a Python kernel host, or skips the test.
func startPython(t testing.TB, args ...string) *agent {
	t.Helper()
	const variable = "PANDASTACK_TEST_PYTHON"
	python := os.Getenv(variable)
	if python == "" {
		t.Skipf("%s names no interpreter with IPython", variable)
	}
	if out, err := exec.Command(python, "-c", "import IPython, numpy").CombinedOutput(); err != nil {
		t.Fatalf("%s=%s has no IPython and numpy: %v\n%s", variable, python, err, out)
	}
	hosts, err := filepath.Abs("../../guestpy")
	if err != nil {
		t.Fatal(err)
	}
	return start(t, append(args, "--python", python, "--python-path", hosts)...)
}

func deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// code is the error's code, or "".
func code(err error) string {
	var e *guestproto.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func wantCode(t *testing.T, err error, want string) {
	t.Helper()
	if code(err) != want {
		t.Fatalf("got error %v, want code %s", err, want)
	}
}

func decode[T any](t testing.TB, e guestproto.Event) (v T) {
	t.Helper()
	if err := json.Unmarshal(e.Content, &v); err != nil {
		t.Fatalf("event %d, %s: %v", e.Seq, e.Type, err)
	}
	return v
}

// cell is what one execution gave.
type cell struct {
	Events []guestproto.Event
	Stdout string
	Stderr string
	Result string // text/plain, quoted
	Error  guestproto.CellError
	Done   guestproto.Done
}

func (c *cell) add(t testing.TB, e guestproto.Event) {
	c.Events = append(c.Events, e)
	switch e.Type {
	case guestproto.EventStream:
		if s := decode[guestproto.Stream](t, e); s.Name == "stdout" {
			c.Stdout += s.Text
		} else {
			c.Stderr += s.Text
		}
	case guestproto.EventResult:
		c.Result = string(decode[guestproto.Display](t, e).Data["text/plain"])
	case guestproto.EventError:
		c.Error = decode[guestproto.CellError](t, e)
	case guestproto.EventDone:
		c.Done = decode[guestproto.Done](t, e)
	}
}

var cells int

func (a *agent) run(t testing.TB, kernel string, req guestproto.ExecuteRequest) (c cell) {
	t.Helper()
	if req.ID == "" {
		cells++
		req.ID = fmt.Sprint("cell-", cells)
	}
	err := a.Execute(deadline(t), kernel, req, nil, func(e guestproto.Event) error {
		c.add(t, e)
		return nil
	})
	if err != nil {
		t.Fatalf("execute %.60q: %v", req.Code, err)
	}
	return c
}

func (a *agent) code(t testing.TB, kernel, code string) cell {
	t.Helper()
	return a.run(t, kernel, guestproto.ExecuteRequest{Code: code})
}

func (a *agent) kernel(t testing.TB, id string) guestproto.Kernel {
	t.Helper()
	k, err := a.CreateKernel(deadline(t), guestproto.KernelRequest{ID: id, Language: "python"})
	if err != nil {
		t.Fatalf("create kernel: %v", err)
	}
	return k
}

// eventually waits for a state that another process brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(20 * time.Second); !ok(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("never happened: %s", what)
		}
	}
}
