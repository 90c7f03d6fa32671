//go:build vm

package e2e

import (
	"strings"
	"testing"
	"time"

	"pandastack/api"
	"pandastack/test/harness"
)

func TestExec(t *testing.T) {
	s := harness.Start(t, harness.NewDir(t))
	b := &box{s, s.NewSandbox(t).ID}
	for _, c := range []struct {
		name   string
		req    api.Exec
		code   int
		signal string
		stdout string
		stderr string
	}{
		{"streams", api.Exec{Cmd: "echo out; echo err >&2"}, 0, "", "out\n", "err\n"},
		{"exit code", api.Exec{Cmd: "exit 7"}, 7, "", "", ""},
		{"arguments", api.Exec{Argv: []string{"printf", "%s|", "a b", "$HOME", ""}}, 0, "", "a b|$HOME||", ""},
		{"folder, environment, input", api.Exec{Cmd: `pwd; echo "$GREETING"; cat`, Cwd: "/tmp", Env: map[string]string{"GREETING": "hé"}, Stdin: "in"}, 0, "", "/tmp\nhé\nin", ""},
		{"the agent, SCHED_RR, goes before the process", api.Exec{Cmd: "cut -d' ' -f41 /proc/1/stat /proc/$$/stat"}, 0, "", "2\n0\n", ""},
		{"default folder", api.Exec{Cmd: "pwd"}, 0, "", "/workspace\n", ""},
		{"signal", api.Exec{Cmd: "kill -KILL $$"}, 128 + 9, "SIGKILL", "", ""},
		{"another signal", api.Exec{Argv: []string{"sh", "-c", "kill -TERM $$"}}, 128 + 15, "SIGTERM", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := b.exec(t, c.req)
			if got.ExitCode != c.code || got.Signal != c.signal || got.Stdout != c.stdout || got.Stderr != c.stderr {
				t.Errorf("got %+v, want %d %q %q %q", got, c.code, c.signal, c.stdout, c.stderr)
			}
		})
	}
	t.Run("timeout", b.execTimeout)
	t.Run("no such program", func(t *testing.T) {
		_, err := b.Exec(t.Context(), b.id, api.Exec{Argv: []string{"/no/such/program"}})
		assertRefused(t, err, api.CodeFileNotFound, "/no/such/program")
	})
}

// execTimeout wants the process and its children gone, and what they printed kept.
func (b *box) execTimeout(t *testing.T) {
	began := time.Now()
	_, err := b.Exec(t.Context(), b.id, api.Exec{Cmd: "echo before; sleep 987 & sleep 987", TimeoutSeconds: 1})
	assertRefused(t, err, api.CodeExecTimeout, "1 s")
	if took := time.Since(began); took > soon {
		t.Errorf("it took %v", took)
	}
	if err != nil && !strings.Contains(detail(err), "before") {
		t.Errorf("what was printed is not in the error's detail: %s", detail(err))
	}
	harness.Await(t, soon, "the processes to be gone", func() error {
		return empty(b.exec(t, api.Exec{Cmd: "ps -eo args | grep '^sleep 987'"}).Stdout)
	})
}

// TestContexts: kernels of one sandbox share its files and nothing else.
func TestContexts(t *testing.T) {
	s := harness.Start(t, harness.NewDir(t))
	id := s.NewSandbox(t).ID
	first, second := s.NewContext(t, id), s.NewContext(t, id)
	s.Run(t, id, first, "x = 1; import os; os.environ['Y'] = '1'; os.chdir('/tmp'); open('/workspace/shared', 'w').write('both')")
	if got := s.Text(t, id, second, "'x' in globals(), os.environ.get('Y') if 'os' in globals() else None, open('shared').read()"); got != "(False, None, 'both')" {
		t.Errorf("the second context sees %s", got)
	}
	s.Run(t, id, second, "x = 2")
	if got := s.Text(t, id, first, "x, os.getcwd()"); got != "(1, '/tmp')" {
		t.Errorf("the first context has %s", got)
	}
	assertBusyContextsAreIndependent(t, s, id, first, second)

	pid := s.Text(t, id, second, "import os; os.getpid()")
	if err := s.DeleteContext(t.Context(), id, second); err != nil {
		t.Fatal(err)
	}
	_, err := s.Execute(t.Context(), id, second, api.Execute{Code: "1"})
	assertRefused(t, err, api.CodeContextNotFound, second)
	assertRefused(t, s.DeleteContext(t.Context(), id, second), api.CodeContextNotFound, second)
	b := &box{s, id}
	if got := b.exec(t, api.Exec{Cmd: "ls -d /proc/" + pid}); got.ExitCode == 0 {
		t.Errorf("the deleted context's process %s lives", pid)
	}
	var list api.ContextList
	s.Get(t, "/v1/sandboxes/"+id+"/contexts", &list)
	if len(list.Items) != 1 || list.Items[0].ID != first {
		t.Errorf("contexts left: %+v, want %s", list.Items, first)
	}
	if got := s.Text(t, id, first, "x"); got != "1" {
		t.Errorf("the first context's x is %s", got)
	}
}

// assertBusyContextsAreIndependent runs a cell beside one that is interrupted.
func assertBusyContextsAreIndependent(t *testing.T, s *harness.Server, id, busy, idle string) {
	t.Helper()
	ran := make(chan api.Execution, 1)
	go func() {
		ex, err := s.Execute(t.Context(), id, busy, api.Execute{Code: "open('/tmp/busy', 'w').close()\nimport time; time.sleep(600)"})
		if err != nil {
			t.Errorf("the busy context: %v", err)
		}
		ran <- ex
	}()
	s.AwaitFile(t, id, "/tmp/busy")
	if got := s.Text(t, id, idle, "6 * 7"); got != "42" {
		t.Errorf("beside a busy context 6 * 7 is %s", got)
	}
	if err := s.Interrupt(t.Context(), id, busy); err != nil {
		t.Fatal(err)
	}
	select {
	case ex := <-ran:
		if ex.Error == nil || ex.Error.Name != "KeyboardInterrupt" {
			t.Errorf("the interrupted cell ended with %+v", ex.Error)
		}
	case <-time.After(soon):
		t.Fatal("the interrupted cell does not end")
	}
}
