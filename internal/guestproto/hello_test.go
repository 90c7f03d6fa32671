package guestproto

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// An agent whose machine hardly runs handles the first frame of a session so late
// that its HTTP server has given the session up.
func TestHelloOutlastsALateFirstFrame(t *testing.T) {
	t.Parallel() // it takes the 3 s
	guest, host := socketpair(t)
	var served sync.WaitGroup
	served.Go(func() { _ = Serve(context.Background(), Accept(guest), NewHandler(greeter{})) })
	port, dials := NewPort(host), 0
	rt := Transport(func(ctx context.Context) (net.Conn, error) {
		dials++
		c, err := port.Dial(ctx)
		if dials == 1 {
			c = &lateFrame{Conn: c}
		}
		return c, err
	})
	h, err := NewClient(rt, "http://guest").Hello(deadline(t))
	if err != nil || h.Version != Version {
		t.Errorf("Hello: %+v, %v", h, err)
	}
	if dials != 2 {
		t.Errorf("%d sessions, want 2: the first was to be given up", dials)
	}
	rt.CloseIdleConnections()
	_ = host.Close()
	served.Wait()
}

type greeter struct{ Guest }

func (greeter) Hello(context.Context) (Hello, error) { return Hello{Version: Version}, nil }

// lateFrame lets 3 s pass between the HTTP/2 preface and the first frame.
type lateFrame struct {
	net.Conn
	once sync.Once
}

func (c *lateFrame) Write(b []byte) (n int, err error) {
	const preface = len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	c.once.Do(func() {
		n, err = c.Conn.Write(b[:preface])
		time.Sleep(3 * time.Second)
	})
	if err != nil {
		return n, err
	}
	more, err := c.Conn.Write(b[n:])
	return n + more, err
}
