package guest_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pandastack/internal/guestproto"
)

type run struct {
	Stdout, Stderr string
	Exit           guestproto.ExecEvent
}

func (a *agent) exec(t testing.TB, req guestproto.ExecRequest) (r run) {
	t.Helper()
	err := a.Exec(deadline(t), req, func(e guestproto.ExecEvent) error {
		switch e.Type {
		case guestproto.ExecStdout:
			r.Stdout += string(e.Data)
		case guestproto.ExecStderr:
			r.Stderr += string(e.Data)
		default:
			r.Exit = e
		}
		return nil
	})
	if err != nil {
		t.Fatalf("exec %+v: %v", req, err)
	}
	return r
}

func TestExec(t *testing.T) {
	a := start(t)
	for _, test := range []struct {
		name           string
		req            guestproto.ExecRequest
		stdout, stderr string
		exit           int
		signal         string
	}{
		{"both outputs", guestproto.ExecRequest{Shell: "echo out; echo err >&2; exit 3"}, "out\n", "err\n", 3, ""},
		{"argv", guestproto.ExecRequest{Argv: []string{"printf", "%s|", "a b", "c"}}, "a b|c|", "", 0, ""},
		{"stdin", guestproto.ExecRequest{Shell: "cat", Stdin: []byte("given")}, "given", "", 0, ""},
		{"no stdin", guestproto.ExecRequest{Shell: "cat"}, "", "", 0, ""},
		{"stdin nobody reads", guestproto.ExecRequest{Shell: "true", Stdin: make([]byte, 1<<20)}, "", "", 0, ""},
		{"environment", guestproto.ExecRequest{Shell: "echo $A $HOME", Env: map[string]string{"A": "x", "HOME": "/h"}}, "x /h\n", "", 0, ""},
		{"working directory", guestproto.ExecRequest{Shell: "pwd", Cwd: "/usr"}, "/usr\n", "", 0, ""},
		{"workspace", guestproto.ExecRequest{Shell: "pwd"}, a.Root + "/workspace\n", "", 0, ""},
		{"signal", guestproto.ExecRequest{Shell: "kill -SEGV $$"}, "", "", -1, "SIGSEGV"},
		{"grandchild keeps the pipe", guestproto.ExecRequest{Shell: "echo a; sleep 3 & exit 0"}, "a\n", "", 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			begun := time.Now()
			r := a.exec(t, test.req)
			if r.Stdout != test.stdout || r.Stderr != test.stderr || r.Exit.ExitCode != test.exit || r.Exit.Signal != test.signal || r.Exit.TimedOut {
				t.Errorf("got %+v", r)
			}
			if took := time.Since(begun); took > 2500*time.Millisecond {
				t.Errorf("took %s", took)
			}
		})
	}
}

func TestExecThatIsRefused(t *testing.T) {
	a := start(t)
	for _, test := range []struct {
		req  guestproto.ExecRequest
		want string
	}{
		{guestproto.ExecRequest{}, guestproto.CodeInvalid},
		{guestproto.ExecRequest{Shell: "a", Argv: []string{"a"}}, guestproto.CodeInvalid},
		{guestproto.ExecRequest{Argv: []string{"a\x00b"}}, guestproto.CodeInvalid},
		{guestproto.ExecRequest{Argv: []string{"no-such-command"}}, guestproto.CodeNotFound},
		{guestproto.ExecRequest{Argv: []string{"/etc/passwd"}}, guestproto.CodePermission},
		{guestproto.ExecRequest{Shell: "true", Cwd: "/nowhere"}, guestproto.CodeNotFound},
	} {
		err := a.Exec(deadline(t), test.req, func(guestproto.ExecEvent) error { return nil })
		wantCode(t, err, test.want)
	}
}

func TestExecTimeoutEndsTheGroup(t *testing.T) {
	a := start(t)
	r := a.exec(t, guestproto.ExecRequest{Shell: "(trap '' TERM; sleep 1000) & echo $!; wait", TimeoutMS: 200})
	if !r.Exit.TimedOut || r.Exit.Signal != "SIGTERM" {
		t.Fatalf("got %+v", r)
	}
	wantGone(t, r.Stdout)
	r = a.exec(t, guestproto.ExecRequest{Shell: "trap '' TERM; echo $$; while :; do sleep 0.05; done", TimeoutMS: 100})
	if !r.Exit.TimedOut || r.Exit.Signal != "SIGKILL" {
		t.Fatalf("got %+v", r)
	}
	wantGone(t, r.Stdout)
}

func wantGone(t *testing.T, text string) {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process ends", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}

func TestExecEndsWithItsCaller(t *testing.T) {
	a := start(t)
	ctx, cancel := context.WithCancel(deadline(t))
	out := ""
	err := a.Exec(ctx, guestproto.ExecRequest{Shell: "sleep 1000 & echo $!; wait"}, func(e guestproto.ExecEvent) error {
		out += string(e.Data)
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	wantGone(t, out)
}

func TestExecStreamsAsItComes(t *testing.T) {
	a := start(t)
	fifo := a.Root + "/workspace/fifo"
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	got := ""
	err := a.Exec(deadline(t), guestproto.ExecRequest{Shell: "echo first; cat fifo"}, func(e guestproto.ExecEvent) error {
		if got += string(e.Data); got == "first\n" && e.Type == guestproto.ExecStdout {
			return os.WriteFile(fifo, []byte("second\n"), 0) // only what has come can have let it go on
		}
		return nil
	})
	if err != nil || got != "first\nsecond\n" {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestExecOutputIsWhole(t *testing.T) {
	a := start(t)
	r := a.exec(t, guestproto.ExecRequest{Shell: "head -c 20000000 /dev/zero | tr '\\0' x"})
	if len(r.Stdout) != 20_000_000 || strings.Trim(r.Stdout, "x") != "" {
		t.Fatalf("got %d bytes", len(r.Stdout))
	}
}

func TestOrphansAreCollected(t *testing.T) {
	a := start(t)
	r := a.exec(t, guestproto.ExecRequest{Shell: "(setsid sleep 0.2 >/dev/null 2>&1 & echo $!)"})
	wantGone(t, r.Stdout)
}
