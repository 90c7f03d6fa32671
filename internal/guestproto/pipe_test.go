package guestproto

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// socketpair returns two joined stream sockets that the test closes.
func socketpair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ends := make([]net.Conn, 2)
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socketpair")
		if ends[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		t.Cleanup(func() { _ = ends[i].Close() })
	}
	return ends[0], ends[1]
}

// pump stands for the VMM between a guest's port and its host: the host's end
// can be replaced without the guest noticing anything but lost bytes.
type pump struct {
	guest net.Conn

	order sync.Mutex // held while bytes pass to the guest: an old host's never follow a new one's

	mu   sync.Mutex
	host net.Conn // nil between hosts
	left int      // bytes, either way, until the host is cut; below 0 it never is
	wait sync.WaitGroup
}

// newPump returns the guest's port and what stands behind it.
func newPump(t testing.TB) (guest net.Conn, p *pump) {
	t.Helper()
	guest, inner := socketpair(t)
	p = &pump{guest: inner}
	p.wait.Go(p.toHost)
	t.Cleanup(func() {
		_ = guest.Close()
		p.attach(nil, 0)
		p.wait.Wait()
	})
	return guest, p
}

// connect replaces the host; the new one is cut after left bytes.
func (p *pump) connect(t testing.TB, left int) net.Conn {
	t.Helper()
	mine, theirs := socketpair(t)
	p.attach(theirs, left)
	p.wait.Go(func() { p.toGuest(theirs) })
	return mine
}

func (p *pump) attach(host net.Conn, left int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.host != nil {
		_ = p.host.Close()
	}
	p.host, p.left = host, left
}

// allow says how many of n bytes host may still pass, cutting it when it may no more.
func (p *pump) allow(host net.Conn, n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.host != host || host == nil:
		return 0
	case p.left < 0:
		return n
	case n < p.left:
		p.left -= n
		return n
	}
	n = p.left
	_ = p.host.Close()
	p.host = nil
	return n
}

func (p *pump) toGuest(host net.Conn) {
	b := make([]byte, 10000)
	for {
		n, err := host.Read(b)
		p.order.Lock()
		_, werr := p.guest.Write(b[:p.allow(host, n)])
		p.order.Unlock()
		if err != nil || werr != nil {
			return
		}
	}
}

func (p *pump) toHost() {
	b := make([]byte, 10000)
	for {
		n, err := p.guest.Read(b)
		p.mu.Lock()
		host := p.host
		p.mu.Unlock()
		if m := p.allow(host, n); m > 0 {
			_ = host.SetWriteDeadline(time.Now().Add(5 * time.Second))
			_, _ = host.Write(b[:m])
		}
		if err != nil {
			return
		}
	}
}

// echo answers every session with its own bytes until the pipe ends.
func echo(t testing.TB, l *Listener) {
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wait.Go(func() {
				defer func() { _ = c.Close() }()
				_, _ = io.Copy(c, struct{ io.Reader }{c})
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wait.Wait()
	})
}

func deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// ask sends text and wants it back.
func ask(t testing.TB, c net.Conn, text string) {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatalf("write: %v", err)
	}
	b := make([]byte, len(text))
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatalf("read: %v", err)
	}
	if string(b) != text {
		t.Fatalf("got %.60q, want %.60q", b, text)
	}
}
