package guestproto

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestOutputFollowsItsLineOrIsInIt(t *testing.T) {
	const exit = `{"type":"exit","exit_code":3}` + "\n"
	const raw = `{"type":"stdout","raw":5,"exit_code":0}` + "\na\n\x00\xff\n"
	for name, c := range map[string]struct {
		stream, want string
		broken       bool
	}{
		"after it":        {raw + raw + exit, "stdout=a\n\x00\xff\n|stdout=a\n\x00\xff\n|exit=|", false},
		"in it":           {`{"type":"stderr","data":"YQo="}` + "\n" + exit, "stderr=a\n|exit=|", false},
		"cut":             {raw[:len(raw)-1], "", true},
		"no exit":         {raw, "stdout=a\n\x00\xff\n|", true},
		"too large":       {`{"type":"stdout","raw":65537}` + "\n" + strings.Repeat("a", 65537) + exit, "", false},
		"negative":        {`{"type":"stdout","raw":-1}` + "\n" + exit, "", false},
		"after the exit":  {`{"type":"exit","raw":1}` + "\na", "", false},
		"of another kind": {`{"type":"x","raw":1}` + "\na" + exit, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			err := followExec(io.NopCloser(strings.NewReader(c.stream)), func(e ExecEvent) error {
				got += e.Type + "=" + string(e.Data) + "|"
				return nil
			})
			if whole := strings.HasSuffix(c.want, "exit=|"); got != c.want || (err == nil) != whole || errors.Is(err, ErrBroken) != c.broken {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func FuzzExec(f *testing.F) {
	f.Add(`{"type":"stdout","raw":2,"exit_code":0}` + "\na\n" + `{"type":"exit","exit_code":3,"signal":"SIGHUP"}` + "\n")
	f.Add(`{"type":"stderr","data":"YQ=="}` + "\n" + `{"failed":{"code":"limit","message":"m"}}` + "\n")
	f.Fuzz(func(t *testing.T, stream string) {
		size, ended := 0, false
		err := followExec(io.NopCloser(strings.NewReader(stream)), func(e ExecEvent) error {
			size += len(e.Data)
			ended = e.Type == ExecExit
			return nil
		})
		if size > len(stream) || ended != (err == nil) {
			t.Errorf("%d bytes of %d, ended %t: %v", size, len(stream), ended, err)
		}
	})
}
