package client

import (
	"strings"
	"testing"
)

func TestReadEvents(t *testing.T) {
	const stream = ":\n\nevent: a\ndata: one\ndata: two\n\n: note\ndata:three\n\nevent: lonely\n\ndata: four\n\ndata: cut off"
	var got []string
	err := readEvents(strings.NewReader(stream), func(event string, data []byte) error {
		got = append(got, event+"="+string(data))
		return nil
	})
	want := "a=one\ntwo|=three|=four"
	if err != nil || strings.Join(got, "|") != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// FuzzReadEvents: any stream ends, and no event is larger than what came.
func FuzzReadEvents(f *testing.F) {
	for _, seed := range []string{"", "event: a\ndata: b\n\n", ":\r\n\r\ndata", "data: \n\ndata\n\n", "event:\ndata:x\ndata:y\n\n\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, stream string) {
		size := 0
		err := readEvents(strings.NewReader(stream), func(event string, data []byte) error {
			size += len(data)
			if strings.ContainsRune(event, '\n') {
				t.Errorf("event %q has a line break", event)
			}
			return nil
		})
		if err != nil || size > len(stream) {
			t.Errorf("got %d bytes of %d, %v", size, len(stream), err)
		}
	})
}
