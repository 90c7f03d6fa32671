package sandbox

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pandastack/api"
	"pandastack/internal/guestproto"
)

// ev makes an event of a type and a JSON content.
func ev(kind, content string) guestproto.Event {
	return guestproto.Event{Type: kind, Content: json.RawMessage(content)}
}

func out(text string) guestproto.Event {
	content, _ := json.Marshal(guestproto.Stream{Name: "stdout", Text: text})
	return ev(guestproto.EventStream, string(content))
}

func shown(text, id string) guestproto.Event {
	return ev(guestproto.EventDisplay, fmt.Sprintf(`{"data":{"text/plain":%q},"transient":{"display_id":%q}}`, text, id))
}

func updated(text, id string) guestproto.Event {
	e := shown(text, id)
	e.Type = guestproto.EventUpdateDisplay
	return e
}

func TestCollect(t *testing.T) {
	exit := 3
	const (
		clearNow  = `{"wait":false}`
		clearNext = `{"wait":true}`
		lost      = "; the context's variables are lost and its next cell runs in a fresh kernel"
	)
	cases := []struct {
		name    string
		events  []guestproto.Event
		limit   float64
		want    api.Execution // its results are in results
		results string        // "text(display id)" of each, a star for the main one
	}{
		{name: "streams in order, carriage returns as they are",
			events: []guestproto.Event{out("a\r"), ev("stream", `{"name":"stderr","text":"e"}`), out("b\n"), done(`{"status":"ok","execution_count":4,"duration_ms":1.5}`)},
			want:   api.Execution{Status: "ok", Stdout: "a\rb\n", Stderr: "e", ExecutionCount: 4, DurationMS: 1.5}},
		{name: "each object once",
			events:  []guestproto.Event{shown("one", "x"), ev("execute_result", `{"data":{"text/plain":"two","text/html":"<b>"},"execution_count":7}`), done(`{"status":"ok"}`)},
			want:    api.Execution{Status: "ok"},
			results: "one(x) two()*"},
		{name: "update changes every occurrence",
			events:  []guestproto.Event{shown("0%", "p"), shown("other", "q"), shown("0%", "p"), updated("100%", "p"), updated("!", "unknown"), updated("!", ""), done(`{"status":"ok"}`)},
			want:    api.Execution{Status: "ok"},
			results: "100%(p) other(q) 100%(p)"},
		{name: "clear at once",
			events:  []guestproto.Event{out("a"), shown("one", "x"), ev("clear_output", clearNow), updated("late", "x"), shown("two", ""), done(`{"status":"ok"}`)},
			want:    api.Execution{Status: "ok"},
			results: "two()"},
		{name: "clear at the next output",
			events:  []guestproto.Event{out("a"), shown("one", "x"), ev("clear_output", clearNext), updated("1", "x"), out("b"), out("c"), done(`{"status":"ok"}`)},
			want:    api.Execution{Status: "ok", Stdout: "bc"},
			results: ""},
		{name: "clear at a next output that does not come",
			events:  []guestproto.Event{out("a"), shown("one", "x"), ev("clear_output", clearNext), done(`{"status":"ok"}`)},
			want:    api.Execution{Status: "ok", Stdout: "a"},
			results: "one(x)"},
		{name: "clear at once takes back the one that waits",
			events: []guestproto.Event{ev("clear_output", clearNext), ev("clear_output", clearNow), out("a"), out("b"), done(`{"status":"ok"}`)},
			want:   api.Execution{Status: "ok", Stdout: "ab"}},
		{name: "error without colours",
			events: []guestproto.Event{ev("error", `{"ename":"ValueError","evalue":"no","traceback":["\u001b[0;31mValueError\u001b[0m","  \u001b[1;32mno\u001b[0m"]}`), done(`{"status":"error"}`)},
			want:   api.Execution{Status: "error", Error: &api.CellError{Name: "ValueError", Value: "no", Traceback: "ValueError\n  no"}}},
		{name: "timeout keeps where it was",
			events: []guestproto.Event{ev("error", `{"ename":"KeyboardInterrupt","evalue":"","traceback":["line 3"]}`), done(`{"status":"timeout"}`)}, limit: 0.5,
			want: api.Execution{Status: "timeout", Error: &api.CellError{Name: "Timeout", Value: "the cell ran longer than 0.5 s and was interrupted", Traceback: "line 3"}}},
		{name: "timeout that took the kernel",
			events: []guestproto.Event{done(`{"status":"timeout","restarted":true}`)}, limit: 2,
			want: api.Execution{Status: "timeout", ContextRestarted: true, Error: &api.CellError{Name: "Timeout",
				Value: "the cell ran longer than 2 s and was interrupted; it did not stop, so its kernel was killed: the context's variables are lost and its next cell runs in a fresh kernel"}}},
		{name: "exit",
			events: []guestproto.Event{out("bye"), done(`{"status":"died","exit_code":3,"restarted":true}`)},
			want: api.Execution{Status: "died", Stdout: "bye", ContextRestarted: true,
				Error: &api.CellError{Name: "KernelDied", Value: "the kernel ended with exit code 3" + lost, ExitCode: &exit}}},
		{name: "killed",
			events: []guestproto.Event{done(`{"status":"died","exit_code":-1,"signal":"SIGKILL"}`)},
			want: api.Execution{Status: "died",
				Error: &api.CellError{Name: "KernelDied", Value: "the kernel was killed by SIGKILL" + lost, Signal: "SIGKILL"}}},
		{name: "out of memory",
			events: []guestproto.Event{done(`{"status":"died","exit_code":-1,"signal":"SIGKILL","out_of_memory":true,"memory_peak":943718400,"memory_limit":970981376,"restarted":true}`)},
			want: api.Execution{Status: "died", ContextRestarted: true, Error: &api.CellError{Name: "KernelDied", Signal: "SIGKILL",
				Value: "the machine ran out of memory and the kernel was killed: it used up to 900 MB of the 926 MB that cells and processes share" + lost}}},
		{name: "out of memory without figures",
			events: []guestproto.Event{done(`{"status":"died","exit_code":-1,"signal":"SIGKILL","out_of_memory":true}`)},
			want: api.Execution{Status: "died",
				Error: &api.CellError{Name: "KernelDied", Value: "the machine ran out of memory and the kernel was killed" + lost, Signal: "SIGKILL"}}},
		{name: "aborted",
			events: []guestproto.Event{done(`{"status":"aborted"}`)},
			want: api.Execution{Status: "aborted",
				Error: &api.CellError{Name: "Aborted", Value: "the cell did not run: its context was restarted or deleted first"}}},
		{name: "not done", events: []guestproto.Event{out("so far")}, want: api.Execution{Status: "running", Stdout: "so far"}},
		{name: "unknown events and a hostile status",
			events: []guestproto.Event{ev("comm", `{}`), ev("new_kind", `[]`), done(`{"status":"<script>"}`)},
			want:   api.Execution{Status: "error", Error: &api.CellError{Name: "Error", Value: "the cell failed without saying why"}}},
		{name: "the log had dropped some",
			events: []guestproto.Event{out("a\n"), ev("dropped", `{"first":2,"bytes":99,"stdout":{"bytes":10,"lines":3}}`), done(`{"status":"ok","dropped":99}`)},
			want:   api.Execution{Status: "ok", Stdout: "a\n", Truncated: &api.Truncation{Stdout: &api.TruncatedStream{Bytes: 12, Lines: 4, Kept: 2}}}},
		{name: "cancelled",
			events: []guestproto.Event{done(`{"status":"aborted","reason":"cancelled"}`)},
			want: api.Execution{Status: "aborted",
				Error: &api.CellError{Name: "Aborted", Value: "the cell did not run: it was cancelled"}}},
		{name: "waits for input",
			events: []guestproto.Event{ev("input_request", `{"prompt":"? ","password":true}`)},
			want:   api.Execution{Status: "running", Input: &api.InputRequest{Prompt: "? ", Password: true}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := collect(t, Limits{}, c.limit, c.events...)
			if results := sketch(got.Results); results != c.results {
				t.Errorf("results: got %q, want %q", results, c.results)
			}
			got.Results = nil
			c.want.ID, c.want.ContextID, c.want.Events = "e1", "c1", int64(len(c.events))
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("\n got %s\nwant %s", inJSON(got), inJSON(c.want))
			}
		})
	}
}

func done(content string) guestproto.Event { return ev(guestproto.EventDone, content) }

func collect(t *testing.T, l Limits, limit float64, events ...guestproto.Event) api.Execution {
	t.Helper()
	c := newCollector(l.withDefaults(), nil)
	for n, e := range events {
		e.Seq = int64(n + 1)
		if err := c.add(e); err != nil {
			t.Fatalf("add %v: %v", e, err)
		}
	}
	return c.execution("e1", ran{context: "c1", limit: limit})
}

func sketch(results []api.Result) string {
	var all []string
	for _, r := range results {
		var text string
		_ = json.Unmarshal(r.Data["text/plain"], &text)
		text += "(" + r.DisplayID + ")"
		if r.IsMainResult {
			text += "*"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func inJSON(v any) string {
	text, _ := json.MarshalIndent(v, "", "  ")
	return string(text)
}

func TestRepresentations(t *testing.T) {
	got := collect(t, Limits{}, 0, ev(guestproto.EventDisplay, `{"data":{
		"image/png":"aGk=", "application/json":{"a":1}, "application/vnd.plotly.v1+json":[2],
		"text/html":["<b>","</b>"], "text/plain":5, "text/latex":null, "text/x":{}}, "metadata":{"k":1}}`))
	want := map[string]json.RawMessage{
		"image/png": json.RawMessage(`"aGk="`), "application/json": json.RawMessage(`{"a":1}`),
		"application/vnd.plotly.v1+json": json.RawMessage(`[2]`), "text/html": json.RawMessage(`"\u003cb\u003e\u003c/b\u003e"`),
	}
	if len(got.Results) != 1 || !reflect.DeepEqual(got.Results[0].Data, want) {
		t.Errorf("got %s", inJSON(got))
	}
}

func TestStreamBudgetKeepsHeadAndTail(t *testing.T) {
	for _, piece := range []int{1, 3, 7, 100, 5000} {
		whole := strings.Repeat("0123456789", 500)
		var events []guestproto.Event
		for rest := whole; rest != ""; {
			n := min(piece, len(rest))
			events = append(events, out(rest[:n]))
			rest = rest[n:]
		}
		got := collect(t, Limits{StreamBytes: 101}, 0, events...)
		if want := whole[:50] + whole[len(whole)-51:]; got.Stdout != want {
			t.Errorf("pieces of %d: got %q, want %q", piece, got.Stdout, want)
		}
		if want := (api.TruncatedStream{Bytes: 5000, Kept: 101}); got.Truncated == nil || *got.Truncated.Stdout != want {
			t.Errorf("pieces of %d: got %s, want %v", piece, inJSON(got.Truncated), want)
		}
	}
	exact := collect(t, Limits{StreamBytes: 10}, 0, out("01234"), out("56789"))
	if exact.Stdout != "0123456789" || exact.Truncated != nil {
		t.Errorf("a stream of just the limit: got %q, %s", exact.Stdout, inJSON(exact.Truncated))
	}
}

func TestStreamBudgetCutsNoCharacter(t *testing.T) {
	whole := strings.Repeat("ü€😀", 100)
	for limit := 1; limit < 40; limit++ {
		got := collect(t, Limits{StreamBytes: limit}, 0, out(whole))
		if !utf8.ValidString(got.Stdout) || strings.ContainsRune(got.Stdout, utf8.RuneError) {
			t.Errorf("limit %d: got %q", limit, got.Stdout)
		}
		if got.Truncated.Stdout.Kept != int64(len(got.Stdout)) {
			t.Errorf("limit %d: kept says %d, got %d", limit, got.Truncated.Stdout.Kept, len(got.Stdout))
		}
	}
}

func TestResultBudget(t *testing.T) {
	big := strings.Repeat("x", 4000)
	l := Limits{ResultBytes: 10000}
	got := collect(t, l, 0, shown(big, "a"), shown(big, "b"), shown(big, "c"), updated(big+big, "a"), shown("small", "d"))
	if s := sketch(got.Results); s != big+"(a) "+big+"(b) small(d)" {
		t.Errorf("results: got %.100q", s)
	}
	if got.Truncated == nil || got.Truncated.Results != 2 {
		t.Errorf("truncated: got %s, want 2 results", inJSON(got.Truncated))
	}
	var many []guestproto.Event
	for range 1000 {
		many = append(many, shown("", "")) // empty ones take memory too
	}
	if got := collect(t, l, 0, many...); len(got.Results) > 20 {
		t.Errorf("empty results: %d were kept within 10000 bytes", len(got.Results))
	}
	room := collect(t, l, 0, shown(big, "a"), shown(big, "b"), ev("clear_output", `{}`), shown(big, "c"), updated("small", "c"), shown(big, "d"))
	if room.Truncated != nil || len(room.Results) != 2 {
		t.Errorf("clearing and shrinking make room: got %d results, %s", len(room.Results), inJSON(room.Truncated))
	}
}

func TestOneResultsBudget(t *testing.T) {
	c := newCollector(Limits{}.withDefaults(), &api.OutputBudget{ResultBytes: 100})
	picture := strings.Repeat("A", 500)
	if err := c.add(ev("display_data", `{"data":{"text/plain":"<Figure>","image/png":"`+picture+`"},"metadata":{"pandastack":{"truncated":{"image/svg+xml":9},"k":1}}}`)); err != nil {
		t.Fatal(err)
	}
	for _, hostile := range []string{"null", "[]", `{"truncated":null}`, `{"truncated":[1]}`} {
		if err := c.add(ev("display_data", `{"data":{"image/png":"`+picture+`"},"metadata":{"pandastack":`+hostile+`}}`)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.add(ev("display_data", `{"data":{"text/plain":"whole"},"metadata":{}}`)); err != nil {
		t.Fatal(err)
	}
	ex := c.execution("e", ran{})
	if r := ex.Results[0]; len(r.Data) != 1 || string(r.Metadata["pandastack"]) != `{"k":1,"truncated":{"image/png":502,"image/svg+xml":9}}` {
		t.Errorf("got %s", inJSON(r))
	}
	if ex.Truncated == nil || *ex.Truncated != (api.Truncation{Partial: 5}) {
		t.Errorf("truncated: %s, want 5 partial results", inJSON(ex.Truncated))
	}
	for _, r := range ex.Results[1:5] {
		if string(r.Metadata["pandastack"]) != `{"truncated":{"image/png":502}}` {
			t.Errorf("got %s", inJSON(r))
		}
	}
}

func TestPlain(t *testing.T) {
	cases := map[string]string{
		"plain": "plain", "\x1b[0;31mred\x1b[0m": "red", "\x1b[38;5;241mx": "x", "a\x1b": "a", "a\x1b[": "a", "a\x1b[31": "a",
		"\x1b]0;title\abell": "bell", "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\": "link", "\x1b(Bx": "Bx", "\x1b\x1b[1mx": "x", "\x1bü": "ü",
		"\x1b]open": "open",
	}
	for s, want := range cases {
		if got := plain(s); got != want {
			t.Errorf("plain(%q): got %q, want %q", s, got, want)
		}
	}
}

func FuzzCollect(f *testing.F) {
	f.Add("stream", `{"name":"stdout","text":"a"}`, "clear_output", `{"wait":true}`)
	f.Add("display_data", `{"data":{"text/plain":["a"]},"transient":{"display_id":"x"}}`, "update_display_data", `{"data":{"a":null},"transient":{"display_id":"x"}}`)
	f.Add("error", `{"traceback":["\u001b[", "\u001b]"]}`, "done", `{"status":"died","exit_code":-9,"dropped":-1,"signal":"x"}`)
	f.Fuzz(func(t *testing.T, kind1, content1, kind2, content2 string) {
		c := newCollector(Limits{StreamBytes: 64, ResultBytes: 2000, ExecBytes: 1}, nil)
		for range 3 {
			_ = c.add(ev(kind1, content1))
			_ = c.add(ev(kind2, content2))
		}
		ex := c.execution("e", ran{})
		if len(ex.Stdout) > 3*64 || c.used > 2000 || c.used < 0 {
			t.Errorf("budgets: %d bytes of stdout, %d of results", len(ex.Stdout), c.used)
		}
		if _, err := json.Marshal(ex); err != nil {
			t.Errorf("the execution cannot be sent: %v", err)
		}
	})
}
