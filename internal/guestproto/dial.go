package guestproto

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// How long Dial waits for an ACK before it sends HELLO again: a guest inside a
// cut record needs the second one, a guest that boots needs many.
const (
	firstRetry = 100 * time.Millisecond
	maxRetry   = time.Second
)

// errNoAnswer says that no session came about.
var errNoAnswer = errors.New("guestproto: no answer from the agent")

// Dial opens a session with the agent at the other end of rw and returns once
// the agent acknowledged it. Closing the session, or a Dial that fails, closes
// rw. Use a Port where the pipe must outlive its sessions.
func Dial(ctx context.Context, rw io.ReadWriteCloser) (net.Conn, error) {
	return dial(ctx, rw, shortRun)
}

func dial(ctx context.Context, rw io.ReadWriteCloser, zeros int) (*hostConn, error) {
	var n nonce
	_, _ = rand.Read(n[:]) // never fails
	n[0] |= 1              // a zero byte announces HELLO
	c := newHostConn(rw, n)
	stop := context.AfterFunc(ctx, func() { _ = rw.Close() })
	err := c.greet(zeros)
	if !stop() || err != nil {
		_ = rw.Close()
		return nil, fmt.Errorf("%w: %w", errNoAnswer, errors.Join(ctx.Err(), err))
	}
	return c, nil
}

func newHostConn(rw io.ReadWriteCloser, n nonce) *hostConn {
	r := recordReader{r: bufio.NewReaderSize(rw, bufferLen), nonce: n}
	return &hostConn{rw: rw, nonce: n, r: r, w: recordWriter{w: rw}}
}

// greet sends HELLO until the ACK is there. Closing rw ends it.
func (c *hostConn) greet(zeros int) error {
	acked := make(chan error, 1)
	go func() { acked <- c.awaitAck() }()
	wait := firstRetry
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		if _, err := c.rw.Write(hello(c.nonce, zeros)); err != nil {
			_ = c.rw.Close()
			return errors.Join(err, <-acked)
		}
		zeros = longRun
		select {
		case err := <-acked:
			return err
		case <-timer.C:
			wait = min(2*wait, maxRetry)
			timer.Reset(wait)
		}
	}
}

func (c *hostConn) awaitAck() error {
	for {
		n, err := scan(c.r.r, ackMark)
		if err != nil || n == c.nonce {
			return err
		}
	}
}

// hostConn is the host's end of a session.
type hostConn struct {
	rw    io.ReadWriteCloser
	nonce nonce

	rmu sync.Mutex // guards r and end
	r   recordReader
	end error // what reads return once the session is over

	wmu sync.Mutex // guards w and cut
	w   recordWriter
	cut bool // a record was written in part; no other may follow

	closed atomic.Bool
}

func (c *hostConn) Read(p []byte) (int, error) {
	c.rmu.Lock()
	defer c.rmu.Unlock()
	for {
		switch {
		case c.closed.Load():
			return 0, net.ErrClosed
		case c.end != nil:
			return 0, c.end
		case c.r.left > 0:
			return c.r.take(p), nil
		}
		err := c.r.next()
		switch {
		case errors.Is(err, errBadRecord):
			c.skipAck()
		case errors.Is(err, io.EOF):
			c.end = io.EOF
		case err != nil:
			return 0, err
		}
	}
}

// skipAck takes a second ACK of this session; anything else ends the session.
func (c *hostConn) skipAck() {
	b, err := c.r.r.Peek(greetLen)
	if err == nil && string(b[:len(ackMark)]) == string(ackMark) {
		if n, ok := parseGreeting(b[len(ackMark):]); ok && n == c.nonce {
			discard(c.r.r, greetLen)
			return
		}
	}
	if c.end = ErrSessionEnded; err != nil {
		c.end = errors.Join(ErrSessionEnded, err)
	}
}

func (c *hostConn) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.wmu.Lock()
	defer c.wmu.Unlock()
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	if c.cut {
		return 0, ErrSessionEnded
	}
	n, err := c.w.write(&c.nonce, p)
	c.cut = err != nil
	return n, err
}

// Close ends the session for both ends. The farewell is best effort: a guest
// that does not read must not hold the host.
func (c *hostConn) Close() error {
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	if d, ok := c.rw.(deadliner); ok && c.wmu.TryLock() {
		if !c.cut && d.SetWriteDeadline(time.Now().Add(10*time.Millisecond)) == nil {
			_, _ = c.w.write(&c.nonce, nil)
		}
		c.wmu.Unlock()
	}
	return c.rw.Close()
}

// letGo returns once nobody uses the pipe for this closed session.
func (c *hostConn) letGo() {
	c.rmu.Lock()
	defer c.rmu.Unlock()
	c.wmu.Lock()
	defer c.wmu.Unlock()
}

func (c *hostConn) LocalAddr() net.Addr  { return pipeAddr{} }
func (c *hostConn) RemoteAddr() net.Addr { return pipeAddr{} }

func (c *hostConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *hostConn) SetReadDeadline(t time.Time) error {
	if c.closed.Load() {
		return net.ErrClosed
	}
	if d, ok := c.rw.(deadliner); ok {
		return d.SetReadDeadline(t)
	}
	return os.ErrNoDeadline
}

func (c *hostConn) SetWriteDeadline(t time.Time) error {
	if c.closed.Load() {
		return net.ErrClosed
	}
	if d, ok := c.rw.(deadliner); ok {
		return d.SetWriteDeadline(t)
	}
	return os.ErrNoDeadline
}

// Port is a pipe to an agent that carries one session after another.
type Port struct {
	conn net.Conn

	mu   sync.Mutex // held by Dial
	last *hostConn
}

// NewPort takes a connection to the agent's port. The caller still owns it and
// closes it when the machine is gone, which ends the session too.
func NewPort(conn net.Conn) *Port { return &Port{conn: conn} }

// Dial ends the port's session, if there is one, and opens another.
func (p *Port) Dial(ctx context.Context) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	zeros := shortRun
	if p.last != nil {
		_ = p.last.Close()
		p.last.letGo()
		zeros = longRun // its last record may be cut
	}
	if err := p.conn.SetDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("guestproto: port: %w", err)
	}
	c, err := dial(ctx, &kept{p.conn}, zeros)
	if err != nil {
		return nil, err
	}
	p.last = c
	return c, nil
}

// kept is a connection whose Close only wakes whoever uses it.
type kept struct{ net.Conn }

func (k *kept) Close() error { return k.SetDeadline(time.Unix(1, 0)) }
