package guest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pandastack/internal/guestproto"
)

// widgets make a slider whose callback prints, a comm that sends back what it gets, and one that fails.
const widgets = `
import ipywidgets
from comm import get_comm_manager
slider = ipywidgets.IntSlider(value=1, max=50)
slider.observe(lambda change: print('now', change.new), 'value')
def answer(comm, opened):
    comm.on_msg(lambda m: comm.send({'n': len(m['buffers']), 'v': m['metadata'].get('v')}, buffers=[bytes(b)[::-1] for b in m['buffers']]))
    print('open', opened['content']['data'])
get_comm_manager().register_target('answer', answer)
button = ipywidgets.Button()
button.on_click(lambda _: 1 / 0)
slider.comm.comm_id, button.comm.comm_id`

func TestMessagesToComms(t *testing.T) {
	t.Setenv("TMPDIR", shortDir(t))
	a := startJupyter(t)
	a.kernelOf(t, "ipykernel")
	a.kernel(t, "ours")
	for _, kernel := range []string{"ours", "k"} {
		t.Run(kernel, func(t *testing.T) {
			ids := strings.Split(strings.Trim(a.code(t, kernel, widgets).Result, `"()`), ", ")
			if len(ids) != 2 {
				t.Fatalf("got %q", ids)
			}
			for n := range ids {
				ids[n] = strings.Trim(ids[n], "'")
			}
			send := func(c guestproto.Comm) cell {
				return a.run(t, kernel, guestproto.ExecuteRequest{Comm: &c})
			}
			moved := send(guestproto.Comm{MsgType: "comm_msg", CommID: ids[0], Data: json.RawMessage(`{"method":"update","state":{"value":7},"buffer_paths":[]}`)})
			if moved.Stdout != "now 7\n" || moved.Done.Status != "ok" || moved.Done.ExecutionCount != 0 {
				t.Errorf("the slider: got %+v", moved)
			}
			if c := a.code(t, kernel, "slider.value"); c.Result != `"7"` || c.Done.ExecutionCount != 2 {
				t.Errorf("its value is %s in cell %d", c.Result, c.Done.ExecutionCount)
			}
			clicked := send(guestproto.Comm{MsgType: "comm_msg", CommID: ids[1], Data: json.RawMessage(`{"method":"custom","content":{"event":"click"}}`)})
			if clicked.Done.Status != "error" || clicked.Error.Name != "ZeroDivisionError" {
				t.Errorf("a button that fails: got %+v", clicked)
			}
			opened := send(guestproto.Comm{MsgType: "comm_open", CommID: "mine", TargetName: "answer", Data: json.RawMessage(`{"x":1}`)})
			if opened.Stdout != "open {'x': 1}\n" || opened.Done.Status != "ok" {
				t.Errorf("a comm that is opened: got %+v", opened)
			}
			back := send(guestproto.Comm{
				MsgType: "comm_msg", CommID: "mine", Metadata: map[string]json.RawMessage{"v": json.RawMessage(`"2"`)},
				Buffers: []string{"AAEC", ""},
			})
			n := slices.IndexFunc(back.Events, func(e guestproto.Event) bool { return e.Type == guestproto.EventComm })
			if n < 0 {
				t.Fatalf("no answer: %+v", back)
			}
			got := decode[guestproto.Comm](t, back.Events[n])
			if got.CommID != "mine" || !slices.Equal(got.Buffers, []string{"AgEA", ""}) || !strings.Contains(string(got.Data), `"v":"2"`) {
				t.Errorf("got %+v", got)
			}
			if c := send(guestproto.Comm{MsgType: "comm_msg", CommID: "nobody's"}); c.Done.Status != "ok" {
				t.Errorf("to nobody: got %+v", c.Done)
			}
		})
	}
}

func TestMessagesToCommsQueueLikeCells(t *testing.T) {
	a := startPython(t)
	a.kernel(t, "k")
	a.code(t, "k", "from comm import get_comm_manager\nsaid = []\nget_comm_manager().register_target('t', lambda c, m: said.append(m['content']['data']['n']))")
	a.begin(t, "k", "first", "print(1, flush=True)\nimport time; time.sleep(0.5); said.append('cell')")
	open := guestproto.ExecuteRequest{ID: "second", Comm: &guestproto.Comm{MsgType: "comm_open", CommID: "c", TargetName: "t", Data: json.RawMessage(`{"n":2}`)}}
	x, err := a.Start(deadline(t), "k", open)
	if err != nil || x.Status != "queued" || x.CommID != "c" || x.Code != "" {
		t.Fatalf("got %+v, %v", x, err)
	}
	if c := a.code(t, "k", "said"); c.Result != `"['cell', 2]"` {
		t.Fatalf("got %s", c.Result)
	}
	if again, err := a.Start(deadline(t), "k", open); err != nil || again.Status != "ok" {
		t.Errorf("the same once more: got %+v, %v", again, err)
	}
	_, err = a.Start(deadline(t), "k", guestproto.ExecuteRequest{ID: "second", Code: "1"})
	wantCode(t, err, guestproto.CodeExists)
	for _, c := range []guestproto.Comm{
		{MsgType: "execute_request", CommID: "c"}, {MsgType: "comm_msg"}, {MsgType: "comm_msg", CommID: strings.Repeat("c", 129)},
		{MsgType: "comm_msg", CommID: "c", Data: json.RawMessage("[]")}, {MsgType: "comm_msg", CommID: "c", Buffers: []string{"?"}},
	} {
		_, err := a.Start(deadline(t), "k", guestproto.ExecuteRequest{ID: "bad", Comm: &c})
		wantCode(t, err, guestproto.CodeInvalid)
	}
}

// A kernel whose spec says so is interrupted by a message.
func TestInterruptByMessage(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "kernels", "by-message")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	spec := `{"argv": ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"], "language": "python", "interrupt_mode": "message"}`
	if err := os.WriteFile(filepath.Join(dir, "kernel.json"), []byte(spec), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", shortDir(t))
	a := startPython(t, "--jupyter-path", root)
	a.kernelOf(t, "by-message")
	a.code(t, "k", "kept = 41")
	a.begin(t, "k", "x", forever)
	if err := a.CancelExecution(deadline(t), "x"); err != nil {
		t.Fatal(err)
	}
	if c := a.await(t, "x"); c.Done.Status != "error" || c.Error.Name != "KeyboardInterrupt" || c.Done.Restarted {
		t.Fatalf("got %+v", c)
	}
	if c := a.code(t, "k", "kept + 1"); c.Result != `"42"` {
		t.Fatalf("got %+v", c)
	}
}
