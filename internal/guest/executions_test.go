package guest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pandastack/internal/guestproto"
)

// begin starts a cell and returns when it has printed something.
func (a *agent) begin(t *testing.T, kernel, id, code string) {
	t.Helper()
	if _, err := a.Start(deadline(t), kernel, guestproto.ExecuteRequest{ID: id, Code: code}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cell prints", func() bool {
		x, err := a.Execution(deadline(t), id)
		return err == nil && x.Status == guestproto.StatusRunning && x.Events > 0
	})
}

// await follows an execution to its end.
func (a *agent) await(t *testing.T, id string) (c cell) {
	t.Helper()
	if err := a.Events(deadline(t), id, 0, func(e guestproto.Event) error { c.add(t, e); return nil }); err != nil {
		t.Fatal(err)
	}
	return c
}

const forever = "import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.01)"

func TestStartedCellRunsWithoutItsCaller(t *testing.T) {
	a := startPython(t)
	a.kernel(t, "k")
	req := guestproto.ExecuteRequest{ID: "x", Code: "print('on'); 40 + 2", TimeoutMS: 60_000}
	x, err := a.Start(deadline(t), "k", req)
	if err != nil || x.ID != "x" || x.Kernel != "k" || x.Status != guestproto.StatusRunning || x.Code != req.Code {
		t.Fatalf("got %+v, %v", x, err)
	}
	if c := a.await(t, "x"); c.Result != `"42"` || c.Done.Kernel != "k" || c.Done.TimeoutMS != 60_000 {
		t.Fatalf("got %+v", c)
	}
	again, err := a.Start(deadline(t), "k", req)
	if err != nil || again.Status != "ok" || again.EndedAt.Before(again.StartedAt) || again.QueuedAt.IsZero() {
		t.Fatalf("a second start attaches: got %+v, %v", again, err)
	}
	_, err = a.Start(deadline(t), "another kernel", req)
	wantCode(t, err, guestproto.CodeExists)
	req.Code = "'another'"
	_, err = a.Start(deadline(t), "k", req)
	wantCode(t, err, guestproto.CodeExists)
	if list, err := a.Executions(deadline(t), "k"); err != nil || len(list) != 1 {
		t.Fatalf("got %+v, %v", list, err)
	}
	_, err = a.Executions(deadline(t), "none")
	wantCode(t, err, guestproto.CodeNotFound)
	_, err = a.Execution(deadline(t), "none")
	wantCode(t, err, guestproto.CodeNotFound)
	wantCode(t, a.CancelExecution(deadline(t), "none"), guestproto.CodeNotFound)
}

func TestForgottenCell(t *testing.T) {
	a := startPython(t)
	a.kernel(t, "k")
	if c := a.run(t, "k", guestproto.ExecuteRequest{ID: "x", Code: "40 + 2", Forget: true}); c.Result != `"42"` {
		t.Fatalf("got %+v", c)
	}
	_, err := a.Execution(deadline(t), "x")
	wantCode(t, err, guestproto.CodeNotFound)
	if list, err := a.Executions(deadline(t), ""); err != nil || len(list) != 0 {
		t.Fatalf("got %+v, %v", list, err)
	}
}

func TestQueueIsVisibleAndCancelled(t *testing.T) {
	a := startPython(t)
	a.kernel(t, "k")
	a.begin(t, "k", "1", forever)
	for _, id := range []string{"2", "3"} {
		if _, err := a.Start(deadline(t), "k", guestproto.ExecuteRequest{ID: id, Code: "ran = " + id}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := a.Executions(deadline(t), "k")
	if err != nil || len(list) != 3 || list[0].Status != "running" || list[1].Position != 1 || list[2].Position != 2 || list[2].Status != "queued" {
		t.Fatalf("got %+v, %v", list, err)
	}
	if err := a.CancelExecution(deadline(t), "2"); err != nil {
		t.Fatal(err)
	}
	if c := a.await(t, "2"); c.Done.Status != "aborted" || c.Done.Reason != guestproto.ReasonCancelled {
		t.Fatalf("got %+v", c.Done)
	}
	if err := a.CancelExecution(deadline(t), "1"); err != nil {
		t.Fatal(err)
	}
	if c := a.await(t, "1"); c.Done.Status != "error" || c.Error.Name != "KeyboardInterrupt" {
		t.Fatalf("got %+v", c)
	}
	if c := a.await(t, "3"); c.Done.Status != "ok" || c.Events[0].Type != guestproto.EventStarted {
		t.Fatalf("got %+v", c)
	}
	if err := a.CancelExecution(deadline(t), "1"); err != nil {
		t.Errorf("cancelling what has ended: %v", err)
	}
	if c := a.code(t, "k", "ran"); c.Result != `"3"` {
		t.Fatalf("got %+v", c)
	}
}

func TestFailureAbortsItsBatch(t *testing.T) {
	a := startPython(t)
	a.kernel(t, "k")
	a.begin(t, "k", "first", "import time\nprint(flush=True); time.sleep(0.5); 1/0") // of no batch
	for _, req := range []guestproto.ExecuteRequest{
		{ID: "b1", Code: "1/0", Batch: "b", StopOnError: true},
		{ID: "b2", Code: "'b2'", Batch: "b", StopOnError: true},
		{ID: "other", Code: "'other'"},
	} {
		if _, err := a.Start(deadline(t), "k", req); err != nil {
			t.Fatal(err)
		}
	}
	if c := a.await(t, "b1"); c.Error.Name != "ZeroDivisionError" {
		t.Fatalf("got %+v", c)
	}
	if c := a.await(t, "b2"); c.Done.Status != "aborted" || c.Done.Reason != guestproto.ReasonBatch {
		t.Fatalf("got %+v", c.Done)
	}
	if c := a.await(t, "other"); c.Result != `"'other'"` {
		t.Fatalf("got %+v", c)
	}
}

func TestRestartLosesStateAndAbortsTheQueue(t *testing.T) {
	a := startPython(t)
	k := a.kernel(t, "k")
	a.code(t, "k", "x = 1")
	a.begin(t, "k", "running", forever)
	if _, err := a.Start(deadline(t), "k", guestproto.ExecuteRequest{ID: "waits", Code: "x"}); err != nil {
		t.Fatal(err)
	}
	if err := a.RestartKernel(deadline(t), "k"); err != nil {
		t.Fatal(err)
	}
	if c := a.await(t, "running"); c.Done.Status != "died" || c.Done.Reason != guestproto.ReasonRestarted {
		t.Fatalf("got %+v", c.Done)
	}
	if c := a.await(t, "waits"); c.Done.Status != "aborted" || c.Done.Reason != guestproto.ReasonRestarted {
		t.Fatalf("got %+v", c.Done)
	}
	if c := a.code(t, "k", "'x' in globals()"); c.Result != `"False"` || !c.Done.Restarted || c.Done.ExecutionCount != 1 {
		t.Fatalf("got %+v", c)
	}
	list, err := a.Kernels(deadline(t))
	if err != nil || list[0].PID == k.PID || list[0].Restarts != 1 {
		t.Fatalf("got %+v, %v", list, err)
	}
	wantCode(t, a.RestartKernel(deadline(t), "none"), guestproto.CodeNotFound)
}

func TestInputIsAskedForAndAnswered(t *testing.T) {
	a := startPython(t)
	a.kernel(t, "k")
	req := guestproto.ExecuteRequest{ID: "x", Code: "input('name? ') + '!'", AllowStdin: true}
	var c cell
	err := a.Execute(deadline(t), "k", req, nil, func(e guestproto.Event) error {
		c.add(t, e)
		if e.Type != guestproto.EventInput {
			return nil
		}
		if q := decode[guestproto.InputRequest](t, e); q.Prompt != "name? " || q.Password {
			t.Errorf("got %+v", q)
		}
		if x, err := a.Execution(deadline(t), "x"); err != nil || x.Input == nil || x.Input.Prompt != "name? " {
			t.Errorf("the open question: got %+v, %v", x, err)
		}
		return a.Input(deadline(t), "x", "Å🐼")
	})
	if err != nil || c.Result != `"'Å🐼!'"` {
		t.Fatalf("got %+v, %v", c, err)
	}
	wantCode(t, a.Input(deadline(t), "x", "late"), guestproto.CodeConflict)
	if c := a.code(t, "k", "input()"); c.Error.Name != "StdinNotImplementedError" {
		t.Fatalf("nobody answers: got %+v", c.Error)
	}
}

func TestQuestionsToAKernel(t *testing.T) {
	a := startPython(t)
	a.kernel(t, "k")
	a.code(t, "k", "forty_two = 42")
	ask := func(kind, content string) string {
		t.Helper()
		answer, err := a.Ask(deadline(t), "k", kind, json.RawMessage(content))
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		return string(answer)
	}
	for _, test := range [][3]string{
		{guestproto.AskComplete, `{"code":"forty_","cursor_pos":6}`, `"forty_two"`},
		{guestproto.AskInspect, `{"code":"forty_two","cursor_pos":9,"detail_level":0}`, `"found":true`},
		{guestproto.AskIsComplete, `{"code":"for x in y:"}`, `"incomplete"`},
		{guestproto.AskHistory, `{"hist_access_type":"tail","n":5,"raw":true,"output":false}`, `forty_two = 42`},
	} {
		if got := ask(test[0], test[1]); !strings.Contains(got, test[2]) {
			t.Errorf("%s: got %s, want %s in it", test[0], got, test[2])
		}
	}
	_, err := a.Ask(deadline(t), "k", "shutdown", json.RawMessage(`{}`))
	wantCode(t, err, guestproto.CodeUnsupported)
	a.begin(t, "k", "busy", forever)
	_, err = a.Ask(deadline(t), "k", guestproto.AskComplete, json.RawMessage(`{"code":"f","cursor_pos":1}`))
	wantCode(t, err, guestproto.CodeBusy)
}

// A kernel that prints without end is read, bounded in memory, and can be stopped.
func TestEndlessPrinting(t *testing.T) {
	a := startPython(t)
	a.kernel(t, "k")
	a.begin(t, "k", "flood", "while True: print('x' * 10_000)")
	eventually(t, "much was printed", func() bool {
		x, err := a.Execution(deadline(t), "flood")
		return err == nil && x.Events > 50
	})
	if err := a.CancelExecution(deadline(t), "flood"); err != nil {
		t.Fatal(err)
	}
	if c := a.await(t, "flood"); c.Error.Name != "KeyboardInterrupt" || !strings.HasPrefix(c.Stdout, "xxx") {
		t.Fatalf("got %d bytes, %+v", len(c.Stdout), c.Done)
	}
}

func TestOutputAfterTheCell(t *testing.T) {
	a := startPython(t)
	a.kernel(t, "k")
	c := a.run(t, "k", guestproto.ExecuteRequest{ID: "x", Code: `
import threading
go = threading.Event()
threading.Thread(target=lambda: (go.wait(), print('late'))).start()
print('on time')`})
	if c.Stdout != "on time\n" {
		t.Fatalf("got %+v", c)
	}
	a.code(t, "k", "go.set()")
	eventually(t, "the thread's output is the first cell's", func() bool {
		var all cell
		err := a.Replay(deadline(t), "x", 0, func(e guestproto.Event) error { all.add(t, e); return nil })
		return err == nil && all.Stdout == "on time\nlate\n" && all.Done.Status == "ok"
	})
	if err := a.Events(deadline(t), "x", 1000, func(guestproto.Event) error { return nil }); err != nil {
		t.Errorf("following what has ended: %v", err)
	}
}

// Who listens hears what comes late as it comes, until the kernel can say no more.
func TestListeningAfterTheCell(t *testing.T) {
	a := startPython(t)
	a.kernel(t, "k")
	a.run(t, "k", guestproto.ExecuteRequest{ID: "x", Code: `
import threading
go = threading.Event()
threading.Thread(target=lambda: (go.wait(), print('late' * 50_000 + '\n', end=''))).start()
print('on time')`})
	var all cell
	ended := make(chan error, 1)
	heard := make(chan struct{}, 100)
	go func() {
		ended <- a.Listen(deadline(t), "x", 0, func(e guestproto.Event) error {
			all.add(t, e)
			heard <- struct{}{}
			return nil
		})
	}()
	<-heard
	<-heard // its end
	a.code(t, "k", "go.set()")
	<-heard
	if err := a.RestartKernel(deadline(t), "k"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || all.Stdout != "on time\n"+strings.Repeat("late", 50_000)+"\n" || all.Done.Status != "ok" {
		t.Fatalf("got %.80q, %+v, %v", all.Stdout, all.Done, err)
	}
	if err := a.Listen(deadline(t), "x", 0, func(guestproto.Event) error { return nil }); err != nil {
		t.Errorf("when all is said: %v", err)
	}
}

// Code that holds the interpreter's lock in C hears no signal until it is done.
func TestTimeoutOfCodeThatHearsNoSignal(t *testing.T) {
	a := startPython(t)
	a.kernel(t, "k")
	c := a.run(t, "k", guestproto.ExecuteRequest{Code: "print('begun', flush=True); sum(range(10**12))", TimeoutMS: 300, GraceMS: 300})
	if c.Done.Status != "timeout" || !c.Done.Restarted || c.Stdout != "begun\n" {
		t.Fatalf("got %+v", c)
	}
	if c := a.code(t, "k", "1"); c.Result != `"1"` {
		t.Fatalf("got %+v", c)
	}
}
