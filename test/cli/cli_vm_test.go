//go:build vm

// Package cli runs the real program as its user does, with real machines.
package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"pandastack/api"
	"pandastack/test/harness"
)

// commandTime bounds one command on a busy machine without hardware virtualisation.
const commandTime = 4 * time.Minute

// result of one command.
type result struct {
	code        int
	out, errOut string
}

// program runs the program on a data directory.
type program struct {
	dir   string
	stdin string
}

func (p program) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, harness.Binary(), args...)
	cmd.Env = append(os.Environ(), "PANDASTACK_DATA_DIR="+p.dir, "PANDASTACK_API=", "PANDASTACK_API_KEY=")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if p.stdin != "" {
		cmd.Stdin = strings.NewReader(p.stdin)
	}
	return cmd
}

func (p program) run(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTime)
	defer cancel()
	cmd := p.command(ctx, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatalf("%v: %v", args, err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// ok runs a command that is to succeed and gives what it printed.
func (p program) ok(t *testing.T, args ...string) string {
	t.Helper()
	got := p.run(t, args...)
	if got.code != 0 {
		t.Fatalf("%v: exit code %d\n%s%s", args, got.code, got.out, got.errOut)
	}
	return got.out
}

func TestRunAndExec(t *testing.T) {
	server := harness.Start(t, harness.NewDir(t))
	p := program{dir: server.Dir}
	script := filepath.Join(t.TempDir(), "skript ä.py")
	code := "import sys, os\nprint(sys.argv[1:], os.path.basename(__file__), os.path.exists(__file__))\nprint('oh', file=sys.stderr)\n6 * 7\n"
	if err := os.WriteFile(script, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	got := p.run(t, "run", script, "--x", "ü")
	if got != (result{0, "['--x', 'ü'] skript ä.py True\n42\n", "oh\n"}) {
		t.Errorf("run: %+v", got)
	}
	for code, want := range map[string]int{"1/0": 1, "import sys; sys.exit(5)": 5, "exit()": 0} {
		if got := p.run(t, "run", "-c", code); got.code != want {
			t.Errorf("run -c %q: %+v, want exit code %d", code, got, want)
		}
	}
	code = "import getpass\nprint(input('name? '), getpass.getpass('word? '))\ninput()"
	got = program{p.dir, "Ada\ns3cret\n"}.run(t, "run", "-c", code)
	if got.code != 1 || got.out != "name? word? Ada s3cret\n" || !strings.Contains(got.errOut, "EOFError") {
		t.Errorf("run that asks: %+v", got)
	}
	if left, err := server.Sandboxes(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("run left sandboxes: %v, %v", left, err)
	}

	box := strings.TrimSpace(p.ok(t, "sandbox", "create"))
	for command, want := range map[string]result{
		"echo out; echo err >&2; exit 7": {7, "out\n", "err\n"},
		"kill -TERM $$":                  {143, "", ""},
	} {
		if got := p.run(t, "exec", "-n", box, "--", "sh", "-c", command); got != want {
			t.Errorf("exec %q: %+v, want %+v", command, got, want)
		}
	}
	if got := (program{p.dir, "b\nä\na\n"}).ok(t, "exec", box, "--", "tail", "-n", "2"); got != "ä\na\n" {
		t.Errorf("exec with input: %q", got)
	}
	var described api.Sandbox
	if err := json.Unmarshal([]byte(p.ok(t, "sandbox", "get", "--json", box)), &described); err != nil {
		t.Fatal(err)
	}
	u := described.Usage
	if u == nil || u.Guest == nil {
		t.Fatalf("usage %+v", u)
	}
	if m := u.Memory.HostPrivateBytes; m < 5<<20 || m > 1<<30 || u.Guest.MemoryTotalBytes < 512<<20 || u.Guest.CPUSeconds <= 0 || u.Disk.HostBytes <= 0 {
		t.Errorf("usage %+v, guest %+v", u, u.Guest)
	}
	if life := time.Since(described.CreatedAt).Seconds(); u.Guest.UptimeSeconds > life || u.Guest.CPUSeconds > life+float64(described.CPU) {
		t.Errorf("guest %+v, but the sandbox began %.1f s ago", u.Guest, life)
	}
	if got := p.ok(t, "logs", "--agent", box); !strings.Contains(got, "msg=resumed hostname=sandbox-"+box[:8]) {
		t.Errorf("logs: %q", got)
	}
}

// TestCellsAreFollowedAndExported: a cell of another client, whose thread prints when it
// has ended, a widget that is moved, and the notebook of it all.
func TestCellsAreFollowedAndExported(t *testing.T) {
	server := harness.Start(t, harness.NewDir(t))
	p := program{dir: server.Dir}
	box := server.NewSandbox(t).ID
	kernel := server.NewContext(t, box)
	model := server.Run(t, box, kernel, "import ipywidgets\ns = ipywidgets.IntSlider()\ns.observe(lambda c: print(c.new), 'value')\nprint(s.model_id, end='')").Stdout
	moved := api.SendComm{Comm: api.Comm{MsgType: "comm_msg", CommID: model, Data: map[string]json.RawMessage{
		"method": json.RawMessage(`"update"`), "state": json.RawMessage(`{"value":7}`),
	}}}
	if ex, err := server.SendComm(t.Context(), box, kernel, moved); err != nil || ex.Stdout != "7\n" {
		t.Errorf("sent: %+v, %v", ex, err)
	}
	moved.Comm.Data["state"] = json.RawMessage(`{"value":8}`)
	answers := 0
	ex, err := server.RunComm(t.Context(), box, kernel, moved, func(e api.ExecutionEvent) error {
		if e.Type == "comm" {
			answers++
		}
		return nil
	})
	if err != nil || ex.Stdout != "8\n" || answers == 0 {
		t.Errorf("sent and followed: %+v, %v, %d answers", ex, err, answers)
	}

	code := "import threading, time\ndef later():\n    time.sleep(2)\n    print('later')\nthreading.Thread(target=later).start()\nprint('now')\n1/0"
	queued, err := server.Queue(t.Context(), box, kernel, api.Execute{Code: code})
	if err != nil {
		t.Fatal(err)
	}
	got := p.run(t, "attach", box, queued.ID)
	if got.code != 1 || got.out != "now\n" || !strings.Contains(got.errOut, "ZeroDivisionError") {
		t.Errorf("attach: %+v", got)
	}
	heard := errors.New("heard")
	if _, err := server.Follow(t.Context(), box, queued.ID, api.Follow{Until: api.FollowAll}, func(e api.ExecutionEvent) error {
		if e.Text == "later\n" {
			return heard
		}
		return nil
	}); !errors.Is(err, heard) {
		t.Errorf("follow all: %v", err)
	}
	if got := p.run(t, "attach", "--follow", "none", "--json", box, queued.ID); got.code != 1 || !strings.Contains(got.out, `"now\nlater\n"`) {
		t.Errorf("attach --json: %+v", got)
	}
	if got := p.ok(t, "context", "cells", box, kernel); !strings.Contains(got, "message to the comm "+model) || !strings.Contains(got, queued.ID) {
		t.Errorf("cells: %s", got)
	}

	to := filepath.Join(t.TempDir(), "session.ipynb")
	p.ok(t, "context", "export", box, kernel, "-o", to)
	text, err := os.ReadFile(to)
	var book struct {
		Cells []struct{ Outputs []map[string]any }
	}
	if err != nil || json.Unmarshal(text, &book) != nil || len(book.Cells) != 2 {
		t.Fatalf("got %s, %v", text, err)
	}
	kinds := ""
	for _, output := range book.Cells[1].Outputs {
		kinds += fmt.Sprint(output["output_type"], output["text"], " ")
	}
	if kinds != "stream[now\n] error<nil> stream[later\n] " {
		t.Errorf("outputs %q", kinds)
	}

	shell := filepath.Join(t.TempDir(), "shell.ipynb")
	cells := `{"cell_type":"code","source":"x=5"},{"cell_type":"code","source":"echo $x"}`
	if err := os.WriteFile(shell, []byte(`{"nbformat":4,"metadata":{"kernelspec":{"name":"bash","language":"bash"}},"cells":[`+cells+`]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := p.ok(t, "run", shell); got != "5\n" {
		t.Errorf("a notebook of bash: %q", got)
	}
}

func TestCopiesBothWays(t *testing.T) {
	server := harness.Start(t, harness.NewDir(t))
	p := program{dir: server.Dir}
	box := server.NewSandbox(t).ID
	from := filepath.Join(t.TempDir(), "quelle")
	files := map[string]string{
		"täst 文.txt":      "grüezi\n",
		"sub/deep/run.sh": "#!/bin/sh\necho ran \"$1\"\n",
		"sub/binary":      strings.Repeat("\x00\xff\x80panda", 200_000),
		"-dash":           "",
	}
	for name, content := range files {
		path := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(from, "leer"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.ok(t, "cp", from, box+":")
	if got := p.ok(t, "exec", "-n", box, "--", "quelle/sub/deep/run.sh", "ü"); got != "ran ü\n" {
		t.Errorf("a copied program: %q", got)
	}
	back := filepath.Join(t.TempDir(), "zurück")
	p.ok(t, "cp", box+":quelle", back)
	found := map[string]string{}
	err := filepath.WalkDir(back, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(back, path)
		found[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if found[name] != want {
			t.Errorf("%s came back with %d bytes, want %d", name, len(found[name]), len(want))
		}
	}
	if info, err := os.Stat(filepath.Join(back, "leer")); err != nil || !info.IsDir() || len(found) != len(files) {
		t.Errorf("came back: %d files, empty folder %v", len(found), err)
	}
	p.ok(t, "exec", "-n", box, "--", "ln", "-s", "/etc/passwd", "quelle/link")
	if got := p.run(t, "cp", box+":quelle/.", t.TempDir()); got.code != 1 || !strings.Contains(got.errOut, "quelle/link: a symbolic link") {
		t.Errorf("with a link: %+v", got)
	}
}

// interrupted starts a command, interrupts it once it has a sandbox, and waits for its end.
func interrupted(t *testing.T, server *harness.Server, p program, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTime)
	defer cancel()
	cmd := p.command(ctx, args...)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, commandTime, "a busy kernel", func() error {
		boxes, err := server.Sandboxes(t.Context())
		if err != nil || len(boxes) == 0 || boxes[0].Status != "running" {
			return fmt.Errorf("sandboxes %+v, %v", boxes, err)
		}
		contexts := struct{ Items []api.Context }{}
		server.Get(t, "/v1/sandboxes/"+boxes[0].ID+"/contexts", &contexts)
		if len(contexts.Items) == 0 || contexts.Items[0].Status != "busy" {
			return fmt.Errorf("contexts %+v", contexts.Items)
		}
		return nil
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	return result{code: cmd.ProcessState.ExitCode(), errOut: errOut.String()}
}

func TestInterruptedRunLeavesNothing(t *testing.T) {
	server := harness.Start(t, harness.NewDir(t))
	p := program{dir: server.Dir}
	got := interrupted(t, server, p, "run", "-c", "import time; time.sleep(600)")
	if got != (result{130, "", "pandastack: interrupted\n"}) {
		t.Errorf("%+v", got)
	}
	if left, err := server.Sandboxes(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestRunWithoutAServerAndDown(t *testing.T) {
	dir := harness.NewDir(t)
	p := program{dir: dir}
	const told = "no server is running: started one for this command\n"
	if got := p.run(t, "run", "-c", "6*7"); got.code != 0 || got.out != "42\n" || !strings.HasPrefix(got.errOut, told) {
		t.Errorf("%+v", got)
	}
	if left := harness.Processes(dir); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
	if got := p.run(t, "run", "--keep", "-c", "1"); got.code != 0 || !strings.Contains(got.errOut, "is kept") {
		t.Errorf("--keep: %+v", got)
	}
	server := harness.Start(t, dir)
	kept, err := server.Sandboxes(t.Context())
	if err != nil || len(kept) != 1 || kept[0].Status != "running" {
		t.Fatalf("the kept sandbox: %+v, %v", kept, err)
	}
	more := server.NewSandbox(t).ID
	want := fmt.Sprintf("stopped the server (process %d)\nremoved sandbox %s\nremoved sandbox %s\n", server.PID(), kept[0].ID, more)
	if got := p.ok(t, "down"); got != want {
		t.Errorf("down: %q, want %q", got, want)
	}
	if left := harness.Processes(dir); len(left) > 0 {
		t.Errorf("down left running: %v", left)
	}
	if got := p.ok(t, "down"); got != "nothing is running in "+dir+"\n" {
		t.Errorf("down again: %q", got)
	}
}
