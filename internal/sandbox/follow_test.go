package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/panda"
)

// story is what a cell's log has, numbered.
func story() []guestproto.Event {
	all := []guestproto.Event{
		ev("started", `{}`), out("a\r"), ev("stream", `{"name":"stderr","text":"e"}`), shown("one", "d"), updated("two", "d"),
		ev("execute_result", `{"data":{"text/plain":"3"},"execution_count":7}`), ev("clear_output", `{"wait":true}`),
		ev("comm", `{"msg_type":"comm_open","comm_id":"c"}`), ev("input_request", `{"prompt":"? "}`),
		ev("error", `{"ename":"E","evalue":"v","traceback":["\u001b[31mt"]}`),
		done(`{"status":"error","kernel":"k","execution_count":7}`),
	}
	for n := range all {
		all[n].Seq = int64(n + 1)
	}
	return all
}

func tellStory(sink func(guestproto.Event) error) error {
	for _, e := range story() {
		if err := sink(e); err != nil {
			return err
		}
	}
	return nil
}

func TestFollow(t *testing.T) {
	n := newNode(t)
	sb := n.create()
	n.machine(sb.ID).guest.replay = tellStory
	follow := func(after int64) (all []api.ExecutionEvent) {
		t.Helper()
		err := n.svc.Follow(t.Context(), sb.ID, "x", api.Follow{After: after}, func(e api.ExecutionEvent) error {
			all = append(all, e)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	all := follow(0)
	var types []string
	for _, e := range all {
		types = append(types, e.Type)
	}
	want := "started stdout stderr result display_update result clear_output comm input_request error done"
	if got := strings.Join(types, " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if all[1].Text != "a\r" || all[3].Result.DisplayID != "d" || !all[5].Result.IsMainResult || all[5].ExecutionCount != 7 || !all[6].Wait ||
		all[8].Input.Prompt != "? " || all[9].Error.Traceback != "t" || !strings.Contains(string(all[7].Comm), "comm_open") {
		t.Errorf("got %s", inJSON(all))
	}
	last := follow(9)
	if len(last) != 2 || last[0].Seq != 10 {
		t.Fatalf("got %s, want the last two", inJSON(last))
	}
	if inJSON(last[1]) != inJSON(all[10]) {
		t.Errorf("what is told at the end depends on where one attached:\n%s\n%s", inJSON(last[1]), inJSON(all[10]))
	}
	if ex := all[10].Execution; ex.ContextID != "k" || ex.Error.Name != "E" || ex.Events != 11 {
		t.Errorf("got %s", inJSON(ex))
	}
	if rest := follow(11); len(rest) != 0 {
		t.Errorf("after its end: got %s", inJSON(rest))
	}
}

// Late output follows the end only for who asked for it; what there is by now has no end to be without.
func TestFollowUntil(t *testing.T) {
	n := newNode(t)
	sb := n.create()
	g := n.machine(sb.ID).guest
	late := ev("stream", `{"name":"stdout","text":"late"}`)
	late.Seq = 12
	g.replay = tellStory
	g.listen = func(sink func(guestproto.Event) error) error { return errors.Join(tellStory(sink), sink(late)) }
	follow := func(until string) (all []api.ExecutionEvent) {
		t.Helper()
		err := n.svc.Follow(t.Context(), sb.ID, "x", api.Follow{Until: until}, func(e api.ExecutionEvent) error {
			all = append(all, e)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	all := follow(api.FollowAll)
	if len(all) != 12 || all[10].Type != "done" || all[11].Text != "late" || strings.Contains(all[10].Execution.Stdout, "late") {
		t.Errorf("got %s", inJSON(all))
	}
	g.replay = func(sink func(guestproto.Event) error) error { return sink(story()[0]) }
	if all := follow(api.FollowNone); len(all) != 1 {
		t.Errorf("got %s", inJSON(all))
	}
}

func TestMessageToAComm(t *testing.T) {
	n := newNode(t)
	sb := n.create()
	var got guestproto.ExecuteRequest
	n.machine(sb.ID).guest.execute = func(_ context.Context, req guestproto.ExecuteRequest, sink func(guestproto.Event) error) error {
		got = req
		return sink(done(`{"status":"ok","kernel":"k"}`))
	}
	comm := api.Comm{MsgType: "comm_msg", CommID: "c", Data: map[string]json.RawMessage{"a": []byte("1")}, Buffers: []string{"AAE="}}
	ex, err := n.svc.Execute(t.Context(), sb.ID, "k", api.SendComm{Comm: comm, TimeoutSeconds: 2}.Execute())
	if err != nil || ex.Status != "ok" || got.Comm == nil || string(got.Comm.Data) != `{"a":1}` || got.Comm.Buffers[0] != "AAE=" || got.TimeoutMS != 2000 {
		t.Errorf("got %+v, %v; the agent %+v", ex, err, got)
	}
	comm.Buffers = []string{"AAE=", "no base64"}
	_, err = n.svc.Queue(t.Context(), sb.ID, "k", api.SendComm{Comm: comm}.Execute())
	var known *panda.Error
	if !errors.As(err, &known) || known.Code != api.CodeRequestInvalid || known.Fields[0].Path != "comm.buffers[1]" {
		t.Errorf("got %v", err)
	}
}

func TestFollowerThatLeavesAndAgentThatBreaksOff(t *testing.T) {
	n := newNode(t)
	sb := n.create()
	g := n.machine(sb.ID).guest
	g.replay = tellStory
	left := errors.New("left")
	err := n.svc.Follow(t.Context(), sb.ID, "x", api.Follow{After: 0}, func(api.ExecutionEvent) error { return left })
	if !errors.Is(err, left) || panda.CodeOf(err) != "internal" {
		t.Errorf("got %v", err)
	}
	for _, call := range []error{
		n.svc.Follow(t.Context(), sb.ID, "x", api.Follow{After: -1}, nil),
		n.svc.Follow(t.Context(), sb.ID, "x", api.Follow{Output: &api.OutputBudget{StreamBytes: -1}}, nil),
		n.svc.Run(t.Context(), sb.ID, "c", api.Execute{Batch: strings.Repeat("b", 200)}, nil),
		n.svc.Run(t.Context(), sb.ID, "c", api.Execute{ID: "../x"}, nil),
	} {
		if panda.CodeOf(call) != api.CodeRequestInvalid {
			t.Errorf("got %v, want request.invalid", call)
		}
	}
}

func TestOutput(t *testing.T) {
	n := newNode(t)
	sb := n.create()
	n.machine(sb.ID).guest.replay = func(sink func(guestproto.Event) error) error {
		return errors.Join(sink(out("a\n")), sink(ev("stream", `{"name":"stderr","text":"e"}`)),
			sink(ev("dropped", `{"first":3,"bytes":9,"stdout":{"bytes":5,"lines":1}}`)), sink(out("b\n")), sink(done(`{"status":"ok"}`)))
	}
	for stream, want := range map[string]string{
		"stdout": "a\n\n[5 bytes, 1 lines are missing here: more was printed than is kept]\nb\n", "stderr": "e",
	} {
		var got strings.Builder
		err := n.svc.Output(t.Context(), sb.ID, "x", stream, func(text string) error { got.WriteString(text); return nil })
		if err != nil || got.String() != want {
			t.Errorf("%s: got %q, %v", stream, got.String(), err)
		}
	}
}
