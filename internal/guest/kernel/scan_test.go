package kernel

import (
	"bufio"
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzMessage holds the quick reader to what encoding/json says.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"header":{"msg_id":"1","msg_type":"stream"},"parent_header":{"msg_id":"2"},"content":{"a":"\\\"}{"},"x":[1,{"b":"]"}]}`))
	f.Add([]byte("{ \"content\" : { } , \"header\":{\"msg_type\":\"t\"}\n}"))
	f.Add([]byte(`{"content":{"a":"\\"},"header":{"msg_type":"t"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseMessage(b)
		if err == nil && bytes.ContainsRune(got.Content, '\n') {
			t.Fatalf("a line break in %q", got.Content)
		}
		var fields map[string]json.RawMessage
		if json.Unmarshal(b, &fields) != nil {
			return // it may be read or refused, but not crash
		}
		var want message
		if json.Unmarshal(fields["header"], &want.Header) != nil || want.Header.Type == "" || err != nil {
			return
		}
		if bytes.Count(b, []byte("header")) > 2 || bytes.Count(b, []byte("content")) > 1 {
			return // repeated keys: either may win
		}
		if !json.Valid(got.Content) || got.Header != want.Header {
			t.Fatalf("got %+v of %q", got, b)
		}
	})
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02{}\x00\x00\x00\x01x"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bufio.NewReader(bytes.NewReader(b))
		for total := 0; ; {
			frame, err := readFrame(r)
			if err != nil {
				return
			}
			if total += len(frame); total > len(b) {
				t.Fatalf("%d bytes came out of %d", total, len(b))
			}
		}
	})
}
