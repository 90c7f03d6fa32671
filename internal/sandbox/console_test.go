package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pandastack/api"
	"pandastack/internal/panda"
	"pandastack/internal/vmm"
)

func TestLogs(t *testing.T) {
	n := newNode(t)
	sb := n.create()
	if got := n.logs(sb.ID, "console"); len(got) != 0 {
		t.Errorf("before there is a log: got %q", got)
	}
	long := strings.Repeat("x", maxLine+1)
	n.console(sb.ID, "[ 0.1] kernel\r\n\x1b[31mred\x1b[0m \xff\u0085\u2028\x00\ttab\ntime=1 level=INFO msg=agent\n"+long+"\nend")
	want := []string{"[ 0.1] kernel", "red \uFFFD\ttab", "time=1 level=INFO msg=agent", long[:maxLine], "x", "end"}
	if got := n.logs(sb.ID, "both"); !slices.Equal(got, want) {
		t.Errorf("both: got %q, want %q", got, want)
	}
	if got := n.logs(sb.ID, "agent"); !slices.Equal(got, want[2:3]) {
		t.Errorf("agent: got %q, want %q", got, want[2:3])
	}
	err := n.svc.Logs(t.Context(), "none", "both", false, func(string) error { return nil })
	if panda.CodeOf(err) != api.CodeSandboxNotFound {
		t.Errorf("no such sandbox: got %v", err)
	}
}

func TestLogsAreFollowedToTheMachinesEnd(t *testing.T) {
	n := newNode(t)
	sb := n.create()
	n.console(sb.ID, "one\n")
	lines := make(chan string)
	ended := make(chan error)
	go func() {
		ended <- n.svc.Logs(t.Context(), sb.ID, "console", true, func(line string) error {
			lines <- line
			return nil
		})
	}()
	for _, want := range []string{"one", "two"} {
		if got := <-lines; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		n.console(sb.ID, "two\n")
	}
	if got := <-lines; got != "two" {
		t.Errorf("got %q, want the second two", got)
	}
	n.console(sb.ID, "last words")
	n.machine(sb.ID).die("killed")
	if got := <-lines; got != "last words" {
		t.Errorf("got %q, want the last words", got)
	}
	if err := <-ended; err != nil {
		t.Errorf("Logs: %v", err)
	}
	if got := n.logs(sb.ID, "console"); len(got) != 4 {
		t.Errorf("of a failed sandbox: got %q", got)
	}
}

func (n *node) logs(id, stream string) (all []string) {
	n.t.Helper()
	err := n.svc.Logs(n.t.Context(), id, stream, false, func(line string) error {
		all = append(all, line)
		return nil
	})
	if err != nil {
		n.t.Fatalf("Logs: %v", err)
	}
	return all
}

// console writes what a machine prints.
func (n *node) console(id, text string) {
	n.t.Helper()
	f, err := os.OpenFile(filepath.Join(n.cfg.RunsDir, id, vmm.ConsoleFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		n.t.Fatal(err)
	}
}
