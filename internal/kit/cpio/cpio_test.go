package cpio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
)

// read lists an archive as "name mode content", checking what the kernel does.
func read(t *testing.T, archive []byte) []string {
	t.Helper()
	var out []string
	for at := 0; ; {
		if at%4 != 0 || string(archive[at:at+6]) != "070701" {
			t.Fatalf("no header at %d", at)
		}
		field := func(i int) int {
			v, err := strconv.ParseUint(string(archive[at+6+8*i:at+14+8*i]), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return int(v)
		}
		mode, size, nameLen := field(1), field(6), field(11)
		name := string(archive[at+110 : at+110+nameLen-1])
		if name == trailer {
			return out
		}
		body := (at + 110 + nameLen + 3) &^ 3
		out = append(out, fmt.Sprintf("%s %o %s", name, mode, archive[body:body+size]))
		at = (body + size + 3) &^ 3
	}
}

func TestRoundTrip(t *testing.T) {
	var buf bytes.Buffer
	w := NewWriter(&buf)
	w.File("/init", 0o755, []byte("agent"))
	w.File("/modules/order", 0o644, nil)
	w.File("modules/a.ko", 0o644, []byte("abcd"))
	w.Dir("/dev/pts")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"init 100755 agent", "modules 40755 ", "modules/order 100644 ", "modules/a.ko 100644 abcd",
		"dev 40755 ", "dev/pts 40755 ",
	}
	if got := read(t, buf.Bytes()); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWriteErrorSticks(t *testing.T) {
	r, pw := io.Pipe()
	r.CloseWithError(errors.New("disk is full"))
	w := NewWriter(pw)
	w.File("init", 0o755, []byte("x"))
	if err := w.Close(); err == nil || err.Error() != "disk is full" {
		t.Errorf("Close = %v, want the write's error", err)
	}
}
