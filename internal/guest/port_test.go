package guest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pandastack/internal/guestproto"
)

// fifo gives a port's reading end, and what opens a host's for writing. Like a
// port, a FIFO says end of file while nobody is there.
func fifo(t *testing.T, nap time.Duration) (p guestproto.LanePipe, host func() *os.File) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "port")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return &port{f, raw, nap}, func() *os.File {
		w, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
}

func TestPortWaitsForHosts(t *testing.T) {
	for _, nap := range []time.Duration{0, laneNap} {
		p, host := fifo(t, nap)
		data := bytes.Repeat([]byte("0123456789abcde\n"), 2*turn/16)
		for range 3 { // hosts that come and go
			go func() {
				w := host()
				_, _ = w.Write(data)
				_ = w.Close()
			}()
			got := make([]byte, len(data))
			if _, err := io.ReadFull(p, got); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("nap %v: got other bytes, %v", nap, err)
			}
		}
		_ = p.SetDeadline(time.Unix(1, 0))
		if _, err := p.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("nap %v: got %v, want the deadline's error", nap, err)
		}
	}
}

func TestPortWritesAll(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	raw, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("0123456789abcde\n"), 3*turn/16)
	sent := make(chan error, 1)
	go func() {
		n, err := (&port{w, raw, 0}).Write(data)
		if err == nil && n != len(data) {
			err = io.ErrShortWrite
		}
		sent <- errors.Join(err, w.Close())
	}()
	got, err := io.ReadAll(r)
	if err = errors.Join(err, <-sent); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("got %d bytes of %d, %v", len(got), len(data), err)
	}
}
