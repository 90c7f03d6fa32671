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
