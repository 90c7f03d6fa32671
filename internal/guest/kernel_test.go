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

func TestCellsShareState(t *testing.T) {
	a := startPython(t)
	k := a.kernel(t, "k")
	if k.State != guestproto.KernelIdle || k.Cwd != a.Root+"/workspace" {
		t.Fatalf("got %+v", k)
	}
	a.code(t, "k", "x = 41")
	c := a.code(t, "k", "import sys\nprint('out'); print('err', file=sys.stderr)\nx + 1")
	if c.Result != `"42"` || c.Stdout != "out\n" || c.Stderr != "err\n" || c.Done.Status != "ok" || c.Done.ExecutionCount != 2 {
		t.Fatalf("got %+v", c)
	}
	c = a.code(t, "k", "1/0")
	if c.Error.Name != "ZeroDivisionError" || c.Done.Status != "error" {
		t.Fatalf("got %+v", c)
	}
	list, err := a.Kernels(deadline(t))
	if err != nil || len(list) != 1 || list[0].ExecutionCount != 3 {
		t.Fatalf("got %+v, %v", list, err)
	}
}

func TestKernelsAreLimited(t *testing.T) {
	a := startPython(t)
	const limit = 32
	for n := range limit {
		a.kernel(t, "many-"+strconv.Itoa(n))
	}
	_, err := a.CreateKernel(deadline(t), guestproto.KernelRequest{ID: "one-more", Language: "python"})
	wantCode(t, err, guestproto.CodeLimit)
	if err := a.DeleteKernel(deadline(t), "many-0"); err != nil {
		t.Fatal(err)
	}
	a.kernel(t, "one-more")
}

func TestKernelRequestsThatAreRefused(t *testing.T) {
	a := startPython(t)
	a.kernel(t, "k")
	for _, test := range []struct {
		req  guestproto.KernelRequest
		want string
	}{
		{guestproto.KernelRequest{ID: "k", Language: "python"}, guestproto.CodeExists},
		{guestproto.KernelRequest{Language: "python"}, guestproto.CodeInvalid},
		{guestproto.KernelRequest{ID: "b", Language: "cobol"}, guestproto.CodeUnsupported},
		{guestproto.KernelRequest{ID: "c", Language: "python", Cwd: "/nowhere"}, guestproto.CodeNotFound},
	} {
		_, err := a.CreateKernel(deadline(t), test.req)
		wantCode(t, err, test.want)
	}
	wantCode(t, a.DeleteKernel(deadline(t), "none"), guestproto.CodeNotFound)
	wantCode(t, a.Execute(deadline(t), "none", guestproto.ExecuteRequest{ID: "x"}, nil, nil), guestproto.CodeNotFound)
	wantCode(t, a.Events(deadline(t), "none", 0, nil), guestproto.CodeNotFound)
}

func TestWarmKernelIsClaimedAndConfigured(t *testing.T) {
	a := startPython(t)
	req := guestproto.WarmRequest{Imports: []string{"numpy"}, Cells: []string{"import numpy as np; np.arange(3)"}}
	if err := a.Warm(deadline(t), req); err != nil {
		t.Fatal(err)
	}
	if h, err := a.Hello(deadline(t)); err != nil || !h.WarmKernel || h.Version != guestproto.Version {
		t.Fatalf("got %+v, %v", h, err)
	}
	cwd := t.TempDir()
	kernel := guestproto.KernelRequest{ID: "k", Language: "python", Cwd: cwd, Env: map[string]string{"COLOUR": "green"}}
	if _, err := a.CreateKernel(deadline(t), kernel); err != nil {
		t.Fatal(err)
	}
	a.kernel(t, "fresh")
	const session = "sorted(globals()), len(In), Out, get_ipython().history_manager.get_tail(5)"
	used, fresh := a.code(t, "k", session), a.code(t, "fresh", session)
	if used.Result != fresh.Result || used.Result == "" || used.Done.ExecutionCount != 1 {
		t.Errorf("the rehearsal left something: %s %d; a kernel without one has %s", used.Result, used.Done.ExecutionCount, fresh.Result)
	}
	c := a.code(t, "k", "import os, sys; print(os.getcwd(), os.environ['COLOUR'], 'numpy' in sys.modules, end='')")
	if want := cwd + " green True"; c.Stdout != want {
		t.Fatalf("got %q, %+v; want %q", c.Stdout, c.Done, want)
	}
	if h, err := a.Hello(deadline(t)); err != nil || h.WarmKernel {
		t.Fatalf("the spare was claimed: got %+v, %v", h, err)
	}
}

// TestRehearsedKernelWaitsAgain: it is the same process and knows nothing, unless it
// was asked for something that a kernel nobody has claimed does not have.
func TestRehearsedKernelWaitsAgain(t *testing.T) {
	a := startPython(t)
	if err := a.Warm(deadline(t), guestproto.WarmRequest{}); err != nil {
		t.Fatal(err)
	}
	const session = "sorted(globals()), len(In), Out, get_ipython().history_manager.get_tail(5)"
	a.kernel(t, "rehearsal")
	fresh := a.code(t, "rehearsal", session)
	pid := a.code(t, "rehearsal", "x = 1; import os; os.getpid()").Result
	a.kernel(t, "other")
	if err := a.ReleaseKernel(deadline(t), "rehearsal"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, a.ReleaseKernel(deadline(t), "rehearsal"), guestproto.CodeNotFound)
	wantCode(t, a.ReleaseKernel(deadline(t), "other"), guestproto.CodeConflict) // one waits
	k, err := a.CreateKernel(deadline(t), guestproto.KernelRequest{ID: "k", Language: "python"})
	if err != nil || k.ExecutionCount != 0 {
		t.Fatalf("got %+v, %v", k, err)
	}
	used := a.code(t, "k", session)
	if used.Result != fresh.Result || used.Result == "" || used.Done.ExecutionCount != 1 {
		t.Errorf("the rehearsal left something: %s %d; before it was %s", used.Result, used.Done.ExecutionCount, fresh.Result)
	}
	if got := a.code(t, "k", "import os; os.getpid()").Result; got != pid {
		t.Errorf("got process %s, want %s", got, pid)
	}
	if _, err := a.Start(deadline(t), "k", guestproto.ExecuteRequest{ID: "long", Code: "import time; time.sleep(60)"}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, a.ReleaseKernel(deadline(t), "k"), guestproto.CodeBusy)
	elsewhere := guestproto.KernelRequest{ID: "elsewhere", Language: "python", Cwd: t.TempDir()}
	if _, err := a.CreateKernel(deadline(t), elsewhere); err != nil {
		t.Fatal(err)
	}
	wantCode(t, a.ReleaseKernel(deadline(t), "elsewhere"), guestproto.CodeConflict)
}

func TestWarmSaysWhatFailed(t *testing.T) {
	a := startPython(t)
	err := a.Warm(deadline(t), guestproto.WarmRequest{Imports: []string{"no_such_module"}})
	if code(err) != guestproto.CodeInvalid || !strings.Contains(err.Error(), "no_such_module") {
		t.Fatalf("got %v", err)
	}
}

func TestTimeoutInterrupts(t *testing.T) {
	a := startPython(t)
	a.kernel(t, "k")
	a.code(t, "k", "x = 1")
	c := a.run(t, "k", guestproto.ExecuteRequest{Code: "import time\nwhile True: time.sleep(0.01)", TimeoutMS: 300})
	if c.Done.Status != "timeout" || c.Done.Restarted || c.Error.Name != "KeyboardInterrupt" {
		t.Fatalf("got %+v", c)
	}
	if c := a.code(t, "k", "x"); c.Result != `"1"` {
		t.Fatalf("state was lost: %+v", c)
	}
}

func TestTimeoutKillsWhatIgnoresTheInterrupt(t *testing.T) {
	a := startPython(t)
	a.kernel(t, "k")
	c := a.run(t, "k", guestproto.ExecuteRequest{TimeoutMS: 200, GraceMS: 200, Code: `
import subprocess, time
p = subprocess.Popen(["sleep", "1000"], start_new_session=False)
print(p.pid, flush=True)
while True:
    try: time.sleep(10)
    except KeyboardInterrupt: pass`})
	if c.Done.Status != "timeout" || !c.Done.Restarted {
		t.Fatalf("got %+v", c.Done)
	}
	child, err := strconv.Atoi(strings.TrimSpace(c.Stdout))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cell's child ends", func() bool { return errors.Is(syscall.Kill(child, 0), syscall.ESRCH) })
	if c := a.code(t, "k", "'x' in globals()"); c.Result != `"False"` || !c.Done.Restarted {
		t.Fatalf("got %+v", c)
	}
	list, err := a.Kernels(deadline(t))
	if err != nil || list[0].Restarts != 1 {
		t.Fatalf("got %+v, %v", list, err)
	}
}

func TestKernelThatDies(t *testing.T) {
	a := startPython(t)
	a.kernel(t, "k")
	for _, test := range []struct {
		code, signal string
		exit         int
	}{
		{"import os; os._exit(7)", "", 7},
		{"import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV", -1},
		{"import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL", -1},
	} {
		c := a.code(t, "k", "print('last words')\n"+test.code)
		d := c.Done
		if d.Status != "died" || d.ExitCode != test.exit || d.Signal != test.signal || !d.Restarted {
			t.Fatalf("%s: got %+v", test.code, d)
		}
		if c := a.code(t, "k", "1 + 1"); c.Result != `"2"` || !c.Done.Restarted {
			t.Fatalf("%s: the next cell: %+v", test.code, c)
		}
		if c := a.code(t, "k", "2 + 2"); c.Result != `"4"` || c.Done.Restarted {
			t.Fatalf("%s: the one after it: %+v", test.code, c)
		}
	}
}

func TestKernelThatDiesBetweenCells(t *testing.T) {
	a := startPython(t)
	k := a.kernel(t, "k")
	if err := syscall.Kill(k.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the kernel is dead", func() bool {
		list, err := a.Kernels(deadline(t))
		return err == nil && list[0].State == guestproto.KernelDead
	})
	if c := a.code(t, "k", "2"); c.Result != `"2"` || !c.Done.Restarted {
		t.Fatalf("got %+v, want a result from a fresh kernel that says so", c)
	}
}

func TestZygoteThatDies(t *testing.T) {
	a := startPython(t)
	k := a.kernel(t, "k")
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(k.PID) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	zygote, err := strconv.Atoi(strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(zygote, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if c := a.code(t, "k", "1 + 1"); c.Result != `"2"` || c.Done.Restarted {
		t.Fatalf("the kernel goes on: got %+v", c)
	}
	a.kernel(t, "k2")
	if c := a.code(t, "k", "import os; os._exit(9)"); c.Done.ExitCode != 9 {
		t.Fatalf("an orphan's end is known too: got %+v", c.Done)
	}
	if c := a.code(t, "k", "3"); c.Result != `"3"` {
		t.Fatalf("got %+v", c)
	}
}

func TestInterruptEndsTheCell(t *testing.T) {
	a := startPython(t)
	a.kernel(t, "k")
	var c cell
	req := guestproto.ExecuteRequest{ID: "x", Code: "import time\nprint('begun', flush=True)\ntime.sleep(1000)"}
	err := a.Execute(deadline(t), "k", req, nil, func(e guestproto.Event) error {
		c.add(t, e)
		if e.Type == guestproto.EventStream && c.Stdout == "begun\n" {
			return a.InterruptKernel(deadline(t), "k")
		}
		return nil
	})
	if err != nil || c.Done.Status != "error" || c.Error.Name != "KeyboardInterrupt" {
		t.Fatalf("got %+v, %v", c, err)
	}
}

func TestCallerThatGoesAwayLeavesTheCell(t *testing.T) {
	a := startPython(t)
	a.kernel(t, "k")
	ctx, cancel := context.WithCancel(deadline(t))
	code := "import time\nfor i in range(5):\n    print(i, flush=True); time.sleep(0.05)\n'end'"
	seen := int64(0)
	err := a.Execute(ctx, "k", guestproto.ExecuteRequest{ID: "x", Code: code}, nil, func(e guestproto.Event) error {
		seen = e.Seq
		cancel()
		return nil
	})
	if err == nil || seen == 0 {
		t.Fatalf("got %v after event %d, want the call to end with its context", err, seen)
	}
	var rest cell
	err = a.Events(deadline(t), "x", seen, func(e guestproto.Event) error {
		rest.add(t, e)
		return nil
	})
	if err != nil || rest.Events[0].Seq != seen+1 || rest.Result != `"'end'"` || !strings.HasSuffix(rest.Stdout, "4\n") {
		t.Fatalf("got %+v, %v", rest, err)
	}
	again := a.run(t, "k", guestproto.ExecuteRequest{ID: "x", Code: code})
	if again.Stdout != "0\n1\n2\n3\n4\n" || again.Done.ExecutionCount != 1 {
		t.Fatalf("the same ID attaches: got %+v", again)
	}
}

func TestWaitingCells(t *testing.T) {
	a := startPython(t)
	a.kernel(t, "k")
	begun, over := make(chan struct{}), make(chan error, 1)
	go func() {
		first := true
		over <- a.Execute(deadline(t), "k", guestproto.ExecuteRequest{ID: "1", Code: "order=[1]\nprint(flush=True)\nimport time; time.sleep(1.5)"}, nil, func(guestproto.Event) error {
			if first {
				close(begun)
			}
			first = false
			return nil
		})
	}()
	<-begun
	ctx, cancel := context.WithCancel(deadline(t))
	gone := make(chan error, 1)
	go func() {
		gone <- a.Execute(ctx, "k", guestproto.ExecuteRequest{ID: "2", Code: "order.append(2)"}, nil, nil)
	}()
	eventually(t, "cell 2 waits", func() bool { return a.exists("2") })
	cancel()
	<-gone
	c := a.run(t, "k", guestproto.ExecuteRequest{ID: "3", Code: "order.append(3); order"})
	if err := <-over; err != nil || c.Result != `"[1, 2, 3]"` {
		t.Fatalf("got %+v, %v, want the cell whose caller left to have run too", c, err)
	}
}

// exists says whether an execution is known, without following it.
func (a *agent) exists(id string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	return code(a.Events(ctx, id, 0, func(guestproto.Event) error { return nil })) != guestproto.CodeNotFound
}

func TestDeleteAbortsWaitingCells(t *testing.T) {
	a := startPython(t)
	k := a.kernel(t, "k")
	begun, done := make(chan struct{}, 1), make(chan cell, 2)
	run := func(id, code string) {
		var c cell
		_ = a.Execute(deadline(t), "k", guestproto.ExecuteRequest{ID: id, Code: code}, nil, func(e guestproto.Event) error {
			c.add(t, e)
			select {
			case begun <- struct{}{}:
			default:
			}
			return nil
		})
		done <- c
	}
	go run("1", "import time; print(flush=True); time.sleep(1000)")
	<-begun
	go run("2", "2")
	eventually(t, "cell 2 waits", func() bool { return a.exists("2") })
	if err := a.DeleteKernel(deadline(t), "k"); err != nil {
		t.Fatal(err)
	}
	got := (<-done).Done.Status + " " + (<-done).Done.Status
	if got != "died aborted" && got != "aborted died" {
		t.Fatalf("got %s", got)
	}
	if err := syscall.Kill(k.PID, 0); !errors.Is(err, syscall.ESRCH) {
		t.Fatalf("the kernel's process is still there: %v", err)
	}
	a.kernel(t, "k")
}

func TestBadFrameEndsTheKernelOnly(t *testing.T) {
	a := startPython(t)
	a.kernel(t, "k")
	c := a.code(t, "k", `
import os, socket, stat
for fd in range(3, 64):
    try:
        if stat.S_ISSOCK(os.fstat(fd).st_mode): os.write(fd, b"\xff" * 64)
    except OSError: pass
import time; time.sleep(1000)`)
	if c.Done.Status != "died" || c.Error.Name != "KernelHostError" || !strings.Contains(c.Error.Value, "bad frame") {
		t.Fatalf("got %+v", c)
	}
	if c := a.code(t, "k", "5"); c.Result != `"5"` {
		t.Fatalf("got %+v", c)
	}
}

func TestResumeReseedsKernels(t *testing.T) {
	a := startPython(t)
	a.kernel(t, "k")
	r, err := a.Resume(deadline(t), guestproto.ResumeRequest{Reseed: true, Seed: make([]byte, 32)})
	if err != nil || len(r.Steps) != 1 || r.Steps[0].Name != "kernels" {
		t.Fatalf("got %+v, %v", r, err)
	}
	_, err = a.Resume(deadline(t), guestproto.ResumeRequest{Reseed: true, Seed: make([]byte, 31)})
	wantCode(t, err, guestproto.CodeInvalid)
	if c := a.code(t, "k", "6"); c.Result != `"6"` {
		t.Fatalf("got %+v", c)
	}
}

func TestResumeReseedsTheSpareBeforeItsFirstCell(t *testing.T) {
	a := startPython(t)
	if err := a.Warm(deadline(t), guestproto.WarmRequest{Imports: []string{"random", "numpy.random"}}); err != nil {
		t.Fatal(err)
	}
	const state = "import random, numpy; (random.getstate()[1][:3], numpy.random.get_state()[1][:3].tolist())"
	draw := func(kernel string) string {
		if _, err := a.Resume(deadline(t), guestproto.ResumeRequest{Reseed: true, Seed: make([]byte, 32)}); err != nil {
			t.Fatal(err)
		}
		return a.code(t, kernel, state).Result
	}
	if _, err := a.Resume(deadline(t), guestproto.ResumeRequest{Reseed: true, Seed: make([]byte, 32)}); err != nil {
		t.Fatal(err)
	}
	a.kernel(t, "k")
	first := a.code(t, "k", state).Result
	second := draw("k")
	if first == second || !strings.HasPrefix(first, `"((`) {
		t.Errorf("%s and then %s", first, second)
	}
}

func BenchmarkCell(b *testing.B) {
	a := startPython(b)
	a.kernel(b, "k")
	for b.Loop() {
		a.code(b, "k", "1+1")
	}
}
