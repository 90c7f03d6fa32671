package guest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pandastack/internal/guestproto"
)

// startJupyter starts an agent with the kernels of the template code-interpreter.
func startJupyter(t *testing.T) *agent {
	t.Helper()
	path, err := filepath.Abs("../../templates/code-interpreter/jupyter")
	if err != nil {
		t.Fatal(err)
	}
	return startPython(t, "--jupyter-path", path)
}

// kernelOf makes the kernel "k" of a kernelspec.
func (a *agent) kernelOf(t *testing.T, kind string) guestproto.Kernel {
	t.Helper()
	env := map[string]string{"HOME": t.TempDir(), "COLOUR": "green"}
	k, err := a.CreateKernel(deadline(t), guestproto.KernelRequest{ID: "k", Kind: kind, Env: env})
	if err != nil {
		t.Fatalf("create kernel %s: %v", kind, err)
	}
	return k
}

func sockets(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(os.TempDir(), "kernel-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestBashKernel(t *testing.T) {
	t.Setenv("TMPDIR", shortDir(t))
	a := startJupyter(t)
	k, err := a.CreateKernel(deadline(t), guestproto.KernelRequest{ID: "k", Language: "bash", Env: map[string]string{"COLOUR": "green"}})
	if err != nil || k.Language != "bash" || k.Kind != "bash" || k.Cwd != a.Root+"/workspace" {
		t.Fatalf("got %+v, %v", k, err)
	}
	a.code(t, "k", "x=41; cd /tmp")
	c := a.code(t, "k", "echo $((x + 1)) $COLOUR; pwd")
	if c.Stdout != "42 green\n/tmp\n" || c.Done.Status != "ok" || c.Done.ExecutionCount != 2 {
		t.Fatalf("got %+v", c)
	}
	c = a.code(t, "k", "sh -c 'exit 3'")
	if c.Done.Status != "error" || c.Error.Name != "Error" || c.Error.Value != "3" {
		t.Fatalf("got %+v", c)
	}
	c = a.run(t, "k", guestproto.ExecuteRequest{Code: "echo begun; sleep 1000", TimeoutMS: 1500, GraceMS: 20_000})
	if c.Done.Status != "timeout" || c.Done.Restarted || c.Error.Name != "KeyboardInterrupt" || !strings.Contains(c.Stdout, "begun") {
		t.Fatalf("got %+v", c)
	}
	if c := a.code(t, "k", "echo $x"); c.Stdout != "41\n" {
		t.Fatalf("state was lost: %+v", c)
	}
}

func TestIpykernelGivesWhatOursGives(t *testing.T) {
	t.Setenv("TMPDIR", shortDir(t))
	a := startJupyter(t)
	if k := a.kernelOf(t, "ipykernel"); k.Language != "python" || k.Kind != "ipykernel" {
		t.Fatalf("got %+v", k)
	}
	a.kernel(t, "ours")
	for _, code := range []string{
		"x = 41",
		"import sys\nprint('out', flush=True)\nx + 1",
		"print('err', file=sys.stderr)",
		"print('half \\udc80 of one')",
		"display({'text/plain': 'half \\udc80 of one'}, raw=True, metadata={'half': '\\udc80'})",
		"from IPython.display import display, HTML\ndisplay(HTML('<b>1</b>'), display_id='d'); display(HTML('<i>2</i>'), display_id='d', update=True)",
		"1/0",
		"raise ValueError('half \\udc80 of one')",
		"try:\n    nothing\nexcept NameError as e:\n    raise ValueError('bad') from e",
		"print('after'); x",
	} {
		theirs, ours := a.code(t, "k", code), a.code(t, "ours", code)
		if got, want := shown(t, theirs), shown(t, ours); got != want {
			t.Errorf("%q: ipykernel gives\n%s\nours\n%s", code, got, want)
		}
	}
	ask := func(kernel, kind, content string) string {
		reply, err := a.Ask(deadline(t), kernel, kind, json.RawMessage(content))
		if err != nil {
			t.Fatalf("%s of %s: %v", kind, kernel, err)
		}
		return string(reply)
	}
	if got := ask("k", guestproto.AskComplete, `{"code":"sys.maxs","cursor_pos":8}`); !strings.Contains(got, "maxsize") {
		t.Errorf("complete: got %s", got)
	}
	if got := ask("k", guestproto.AskIsComplete, `{"code":"for x in y:"}`); !strings.Contains(got, "incomplete") {
		t.Errorf("is_complete: got %s", got)
	}
	if got := ask("k", guestproto.AskInspect, `{"code":"x","cursor_pos":1,"detail_level":0}`); !strings.Contains(got, "41") {
		t.Errorf("inspect: got %s", got)
	}
	if got := ask("k", guestproto.AskHistory, `{"hist_access_type":"tail","n":3,"output":false,"raw":true}`); !strings.Contains(got, "after") {
		t.Errorf("history: got %s", got)
	}
}

// shown is all that a cell gave but times, addresses and tracebacks.
func shown(t *testing.T, c cell) string {
	t.Helper()
	var b strings.Builder
	for _, e := range c.Events {
		switch e.Type {
		case guestproto.EventError:
			b.WriteString("error " + c.Error.Name + ": " + c.Error.Value + "\n")
		case guestproto.EventResult, guestproto.EventDisplay, guestproto.EventUpdateDisplay:
			d := decode[guestproto.Display](t, e)
			data, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			b.WriteString(e.Type + " " + string(data) + "\n")
		}
	}
	done, err := json.Marshal([]any{c.Stdout, c.Stderr, c.Done.Status, c.Done.ExecutionCount})
	if err != nil {
		t.Fatal(err)
	}
	return b.String() + string(done)
}

func TestIpykernelAsksAndExceeds(t *testing.T) {
	t.Setenv("TMPDIR", shortDir(t))
	a := startJupyter(t)
	a.kernelOf(t, "ipykernel")
	var c cell
	req := guestproto.ExecuteRequest{ID: "asks", Code: "print('hello ' + input('name? '))", AllowStdin: true}
	err := a.Execute(deadline(t), "k", req, nil, func(e guestproto.Event) error {
		c.add(t, e)
		if e.Type != guestproto.EventInput {
			return nil
		}
		if q := decode[guestproto.InputRequest](t, e); q.Prompt != "name? " {
			t.Errorf("got %+v", q)
		}
		return a.Input(deadline(t), "asks", "panda")
	})
	if err != nil || c.Stdout != "hello panda\n" {
		t.Fatalf("got %+v, %v", c, err)
	}
	c = a.code(t, "k", "print('x' * (40 << 20))")
	if c.Done.Status != "ok" || !strings.Contains(c.Stderr, "left out") {
		t.Fatalf("a message that is too long: got %.200q, %q, %+v", c.Stdout, c.Stderr, c.Done)
	}
}

func TestIpykernelsDeathAndRestart(t *testing.T) {
	t.Setenv("TMPDIR", shortDir(t))
	a := startJupyter(t)
	k := a.kernelOf(t, "ipykernel")
	a.code(t, "k", "x = 1")
	c := a.run(t, "k", guestproto.ExecuteRequest{TimeoutMS: 1500, GraceMS: 300, Code: "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"})
	if c.Done.Status != "timeout" || !c.Done.Restarted {
		t.Fatalf("got %+v", c)
	}
	c = a.runAndKill(t, "print('last words', flush=True)\nimport time; time.sleep(1000)")
	if c.Done.Status != "died" || c.Done.Signal != "SIGKILL" || !c.Done.Restarted || c.Stdout != "last words\n" {
		t.Fatalf("got %+v", c)
	}
	c = a.code(t, "k", "'x' in globals()")
	if c.Result != `"False"` || c.Done.ExecutionCount != 1 {
		t.Fatalf("no fresh kernel: %+v", c)
	}
	if err := a.RestartKernel(deadline(t), "k"); err != nil {
		t.Fatal(err)
	}
	list, err := a.Kernels(deadline(t))
	if err != nil || len(list) != 1 || list[0].PID == k.PID || list[0].Restarts != 3 {
		t.Fatalf("got %+v, %v", list, err)
	}
	c = a.code(t, "k", "import subprocess\nsubprocess.Popen(['sleep', '1000']).pid")
	if len(sockets(t)) != 1 {
		t.Fatalf("folders of sockets: %v, want one kernel's", sockets(t))
	}
	if err := a.DeleteKernel(deadline(t), "k"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of all processes", func() bool { return syscall.Kill(-list[0].PID, 0) == syscall.ESRCH })
	if left := sockets(t); len(left) != 0 {
		t.Fatalf("left behind: %v", left)
	}
}

// runAndKill kills the only kernel when it has printed something.
func (a *agent) runAndKill(t *testing.T, code string) (c cell) {
	t.Helper()
	a.code(t, "k", "0") // it has a process
	list, err := a.Kernels(deadline(t))
	if err != nil || len(list) != 1 || list[0].PID == 0 {
		t.Fatalf("got %+v, %v", list, err)
	}
	err = a.Execute(deadline(t), "k", guestproto.ExecuteRequest{ID: "killed", Code: code}, nil, func(e guestproto.Event) error {
		c.add(t, e)
		if e.Type == guestproto.EventStream {
			return syscall.Kill(list[0].PID, syscall.SIGKILL)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestKernelsThatThereAreNot(t *testing.T) {
	root := t.TempDir()
	for name, spec := range map[string]string{
		"absent": `{"argv": ["/no/such/program"], "language": "absent"}`,
		"silent": `{"argv": ["/bin/true", "{connection_file}"], "language": "silent"}`,
		"broken": `{"argv": []}`,
	} {
		dir := filepath.Join(root, "kernels", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "kernel.json"), []byte(spec), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("TMPDIR", shortDir(t))
	a := startPython(t, "--jupyter-path", root)
	for _, test := range []struct{ language, kind, want string }{
		{"cobol", "", `there are: python, absent (kernel "absent")`},
		{"", "cobol", `silent (kernel "silent")`},
		{"python", "absent", "no kernel for language"},
		{"absent", "", "no such file"},
		{"", "silent", "does not answer"},
		{"broken", "", "no kernel for language"},
	} {
		_, err := a.CreateKernel(deadline(t), guestproto.KernelRequest{ID: "k", Language: test.language, Kind: test.kind})
		if code(err) != guestproto.CodeUnsupported || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v", test, err)
		}
	}
	if left := sockets(t); len(left) != 0 {
		t.Fatalf("left behind: %v", left)
	}
}

// shortDir is a folder whose sockets' names are short enough.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
