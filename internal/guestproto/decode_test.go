package guestproto

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

func follow(text string, after int64) (got []Event, err error) {
	err = followEvents(io.NopCloser(strings.NewReader(text)), after, func(e Event) error {
		got = append(got, e)
		return nil
	})
	return got, err
}

func TestEventsAreReencoded(t *testing.T) {
	got, err := follow(`{"seq":8,"type":"stream","content":{"name":"stdout","text":"<b>","secret":1},"more":2}`+"\n"+
		`{"seq":9,"type":"execute_result","content":{"data":{"text/plain":"1","application/json":{"a": [1]}},"execution_count":3}}`+"\n"+
		`{"seq":20,"type":"dropped","content":{"first":10,"bytes":5}}`+"\n"+
		`{"seq":21,"type":"done","content":{"status":"ok","execution_count":3,"duration_ms":1.5}}`+"\n", 7)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"name":"stdout","text":"<b>"}`,
		`{"data":{"application/json":{"a":[1]},"text/plain":"1"},"execution_count":3}`,
		`{"first":10,"bytes":5}`,
		`{"status":"ok","execution_count":3,"duration_ms":1.5}`,
	}
	for i, e := range got {
		if string(e.Content) != want[i] {
			t.Errorf("event %d: got %s, want %s", i, e.Content, want[i])
		}
	}
}

func TestStreamsThatBreakTheProtocol(t *testing.T) {
	stream := `"type":"stream","content":{"name":"stdout","text":""}}` + "\n"
	for name, text := range map[string]string{
		"cut":              `{"seq":1,` + stream,
		"empty":            "",
		"no line end":      `{"seq":1,"type":"done","content":{"status":"ok"}}`,
		"gap":              `{"seq":2,` + stream,
		"repeated":         `{"seq":1,` + stream + `{"seq":1,` + stream,
		"unknown type":     `{"seq":1,"type":"shell","content":{}}` + "\n",
		"unknown stream":   `{"seq":1,"type":"stream","content":{"name":"stdlog","text":""}}` + "\n",
		"unknown status":   `{"seq":1,"type":"done","content":{"status":"fine"}}` + "\n",
		"no content":       `{"seq":1,"type":"stream"}` + "\n",
		"no data":          `{"seq":1,"type":"display_data","content":{}}` + "\n",
		"wrong type":       `{"seq":1,"type":"error","content":[]}` + "\n",
		"bad dropped":      `{"seq":5,"type":"dropped","content":{"first":2,"bytes":1}}` + "\n",
		"not UTF-8":        `{"seq":1,"type":"stream","content":{"name":"stdout","text":"` + "\xff" + `"}}` + "\n",
		"not JSON":         "hello\n",
		"failed":           `{"failed":{"code":"made_up","message":"m"}}` + "\n",
		"endless line":     strings.Repeat("x", MaxEvent+1),
		"sequence is text": `{"seq":"1",` + stream,
	} {
		if got, err := follow(text, 0); err == nil {
			t.Errorf("%s: got %d events and no error", name, len(got))
		}
	}
}

func TestFailedLineIsARefusal(t *testing.T) {
	_, err := follow(`{"failed":{"code":"no_space","message":"disk full"}}`+"\n", 0)
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeNoSpace || e.Message != "disk full" {
		t.Fatalf("got %v", err)
	}
}

func TestAppendEventIsWhatDecodeReads(t *testing.T) {
	want := Event{Seq: 4, Type: EventStream, Content: json.RawMessage(`{"name":"stderr","text":"é\n"}`)}
	got, err := decodeEvent(appendEvent(nil, want), 3)
	if err != nil || got.Seq != want.Seq || !bytes.Equal(got.Content, want.Content) {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"seq":1,"type":"stream","content":{"name":"stdout","text":"x"}}` + "\n"))
	f.Add([]byte(`{"seq":1,"type":"comm","content":{"msg_type":"comm_open","comm_id":"1","data":{"a":[]}}}` + "\n"))
	f.Add([]byte(`{"seq":1,"type":"error","content":{"ename":"E","evalue":"v","traceback":["a"]}}` + "\n"))
	f.Add([]byte(`{"seq":1,"type":"done","content":{"status":"died","signal":"SIGKILL"}}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		last := int64(0)
		_ = followEvents(io.NopCloser(bytes.NewReader(b)), 0, func(e Event) error {
			if e.Seq <= last || !json.Valid(e.Content) || !utf8.Valid(e.Content) || bytes.ContainsRune(e.Content, '\n') {
				t.Fatalf("after %d: %+v", last, e)
			}
			if _, err := decodeEvent(appendEvent(nil, e), last); err != nil {
				t.Fatalf("what was accepted is not accepted again: %v", err)
			}
			last = e.Seq
			return nil
		})
	})
}
