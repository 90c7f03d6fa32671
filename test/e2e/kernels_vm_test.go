//go:build vm

package e2e

import (
	"net/http"
	"strings"
	"testing"

	"pandastack/api"
	"pandastack/test/harness"
)

// hog takes memory it writes to, 2 GB at most, in steps.
const hog = `hog = []
for step in range(64):
    hog.append(bytearray(32 << 20))
    hog[-1][::4096] = b"x" * 8192`

// TestKernelsThatDie: each death is told as what it was, costs its context the
// variables and nobody else anything.
func TestKernelsThatDie(t *testing.T) {
	s := harness.Start(t, harness.NewDir(t))
	box := s.NewSandbox(t).ID
	kernel, other := s.NewContext(t, box), s.NewContext(t, box)
	s.Run(t, box, other, "kept = 41")
	for _, c := range []struct {
		name, code string
		exit       int
		signal     string
		says       []string
	}{
		{"exit", "import os; os._exit(7)", 7, "", []string{"exit code 7"}},
		{"exit that looks fine", "import os; os._exit(0)", 0, "", []string{"exit code 0"}},
		{"segmentation fault", "import ctypes; ctypes.string_at(0)", 0, "SIGSEGV", []string{"SIGSEGV"}},
		{"abort", "import os; os.abort()", 0, "SIGABRT", []string{"SIGABRT"}},
		{"kill", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 0, "SIGKILL", []string{"SIGKILL"}},
		{"memory", hog, 0, "SIGKILL", []string{"out of memory", " MB of the "}},
		{"memory of a child that the kernel awaits", "import os, subprocess, sys\n" +
			"subprocess.run([sys.executable, '-c', " + quoted(hog) + "]).returncode == -9 or os._exit(1)\nos._exit(9)", 9, "", []string{"exit code 9"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.Run(t, box, kernel, "state = 'there'")
			ex, err := s.Execute(t.Context(), box, kernel, api.Execute{Code: "print('last words', flush=True)\n" + c.code, TimeoutSeconds: 170})
			if err != nil {
				t.Fatal(err)
			}
			assertDied(t, ex, c.exit, c.signal, c.says)
			next := s.Run(t, box, kernel, "print(globals().get('state', 'gone'))")
			if next.Stdout != "gone\n" || !next.ContextRestarted {
				t.Errorf("the next cell printed %q, restarted %v; want a fresh kernel that says so", next.Stdout, next.ContextRestarted)
			}
			if again := s.Run(t, box, kernel, "1"); again.ContextRestarted {
				t.Error("the cell after it says once more that variables are lost")
			}
			if got := s.Text(t, box, other, "kept + 1"); got != "42" {
				t.Errorf("the other context has %s, want 42", got)
			}
		})
	}
	if got, err := s.Sandbox(t.Context(), box); err != nil || got.Status != "running" {
		t.Errorf("the sandbox is %q, %v", got.Status, err)
	}
}

func assertDied(t *testing.T, ex api.Execution, exit int, signal string, says []string) {
	t.Helper()
	e := ex.Error
	if ex.Status != "died" || e == nil || e.Name != "KernelDied" || !ex.ContextRestarted {
		t.Fatalf("got %s %+v, restarted %v; want a kernel that died", ex.Status, e, ex.ContextRestarted)
	}
	if e.Signal != signal || (e.ExitCode == nil) != (signal != "") || e.ExitCode != nil && *e.ExitCode != exit {
		t.Errorf("got exit code %v, signal %q; want %d, %q", e.ExitCode, e.Signal, exit, signal)
	}
	for _, want := range append(says, "variables are lost") {
		if !strings.Contains(e.Value, want) {
			t.Errorf("it says %q, want %q in it", e.Value, want)
		}
	}
	if !strings.HasPrefix(ex.Stdout, "last words\n") {
		t.Errorf("stdout is %q, want what was printed until then", ex.Stdout)
	}
	t.Logf("%s", e.Value)
}

// quoted gives a text as Python writes it.
func quoted(text string) string {
	return `"` + strings.NewReplacer("\\", `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}

// TestProcessOutOfMemory: a process that takes too much dies alone.
func TestProcessOutOfMemory(t *testing.T) {
	s := harness.Start(t, harness.NewDir(t))
	box := s.NewSandbox(t).ID
	kernel := s.NewContext(t, box)
	s.Run(t, box, kernel, "kept = 41")
	ended, err := s.Exec(t.Context(), box, api.Exec{Argv: []string{"python3", "-c", hog}, TimeoutSeconds: 170})
	if err != nil || ended.Signal != "SIGKILL" && ended.ExitCode != 137 {
		t.Errorf("got %+v, %v; want it killed", ended, err)
	}
	if got := s.Run(t, box, kernel, "print(kept)"); got.Stdout != "41\n" || got.ContextRestarted {
		t.Errorf("the context has %q, restarted %v; want it untouched", got.Stdout, got.ContextRestarted)
	}
	if status, body := s.Call(t, http.MethodGet, "/v1/sandboxes/"+box+"/fs/stat?path=/workspace", ""); status != http.StatusOK {
		t.Errorf("got %d %s", status, body)
	}
}
