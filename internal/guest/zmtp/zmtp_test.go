package zmtp

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"slices"
	"testing"
)

// peer accepts one connection, greets as ZeroMQ does and sends what follows.
func peer(t *testing.T, sends ...[]byte) *Conn {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		greeting := make([]byte, 64)
		greeting[0], greeting[9], greeting[10], greeting[11] = 0xff, 0x7f, 3, 1
		copy(greeting[12:], "NULL")
		_, _ = c.Write(append(greeting, frame(command, property([]byte("\x05READY"), "Socket-Type", "ROUTER"))...))
		for _, b := range sends {
			_, _ = c.Write(b)
		}
		_, _ = io.Copy(io.Discard, c) // until we close
	}()
	c, err := Dial(t.Context(), path, "DEALER", "me")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = c.Close(), l.Close()
		<-done
	})
	return c
}

func TestLongMessagesLoseTheirEnd(t *testing.T) {
	c := peer(t,
		frame(more, []byte("head")), frame(more, make([]byte, 300)), frame(0, []byte("tail")),
		frame(command, []byte("\x04PING")), frame(0, []byte("next")))
	parts, left, err := c.Receive(100)
	if err != nil || len(parts) != 1 || string(parts[0]) != "head" || left != 304 {
		t.Fatalf("got %q, %d left, %v", parts, left, err)
	}
	parts, left, err = c.Receive(100)
	if err != nil || len(parts) != 1 || string(parts[0]) != "next" || left != 0 {
		t.Fatalf("got %q, %d left, %v", parts, left, err)
	}
}

func TestHostilePeers(t *testing.T) {
	for name, sends := range map[string][]byte{
		"size":  {long, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"flags": {0x80, 0},
		"parts": slices.Repeat([]byte{more, 0}, maxParts+1),
	} {
		if _, _, err := peer(t, sends).Receive(100); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
