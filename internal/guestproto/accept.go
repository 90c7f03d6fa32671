package guestproto

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Listener gives the agent one session after another, each for a HELLO with a
// new nonce. A session that is replaced ends with ErrSessionEnded.
type Listener struct {
	rw io.ReadWriteCloser

	rmu sync.Mutex // held by whoever reads the pipe: Accept or the session
	r   *bufio.Reader

	wmu   sync.Mutex // held for a whole Write or ACK, so records are never mixed; taken after rmu
	w     recordWriter
	acked nonce // the session that the host believes in

	last     *guestConn // of Accept
	closed   chan struct{}
	closeOne sync.Once
}

// Accept starts to listen on rw, of which reads must wait for bytes. The
// Listener owns rw.
func Accept(rw io.ReadWriteCloser) *Listener {
	return &Listener{
		rw:     rw,
		r:      bufio.NewReaderSize(rw, bufferLen),
		w:      recordWriter{w: rw},
		closed: make(chan struct{}),
	}
}

// Accept waits until the current session is over and the host says HELLO. One
// goroutine may call it.
func (l *Listener) Accept() (net.Conn, error) {
	if l.last != nil {
		select {
		case <-l.last.done:
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
	n, err := l.await()
	if err != nil {
		return nil, err
	}
	c := &guestConn{l: l, r: recordReader{r: l.r, nonce: n}, done: make(chan struct{})}
	if err := l.ack(n); err != nil {
		return nil, err
	}
	l.last = c
	return c, nil
}

// await returns the nonce of the next HELLO.
func (l *Listener) await() (nonce, error) {
	l.rmu.Lock()
	defer l.rmu.Unlock()
	l.setReadDeadline(time.Time{})
	for {
		n, err := scan(l.r, helloMark)
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		l.setReadDeadline(time.Time{}) // a late one of the last session
	}
}

func (l *Listener) setReadDeadline(t time.Time) {
	if d, ok := l.rw.(deadliner); ok {
		_ = d.SetReadDeadline(t)
	}
}

func (l *Listener) ack(n nonce) error {
	l.wmu.Lock()
	defer l.wmu.Unlock()
	l.acked = n
	_, err := l.rw.Write(greeting(ackMark, n))
	return err
}

// Close ends the session and the pipe.
func (l *Listener) Close() error {
	l.closeOne.Do(func() { close(l.closed) })
	return l.rw.Close()
}

// Addr is the pipe's.
func (l *Listener) Addr() net.Addr { return pipeAddr{} }

// guestConn is the guest's end of a session.
type guestConn struct {
	l      *Listener
	r      recordReader // guarded by l.rmu
	ended  atomic.Bool
	once   sync.Once
	closed atomic.Bool
	done   chan struct{} // closed when the session is over
}

func (c *guestConn) Read(p []byte) (int, error) {
	c.l.rmu.Lock()
	defer c.l.rmu.Unlock()
	for {
		if c.ended.Load() {
			return 0, ErrSessionEnded
		}
		if c.r.left > 0 {
			return c.r.take(p), nil
		}
		err := c.r.next()
		switch {
		case c.ended.Load(): // what came is for Accept
		case errors.Is(err, errBadRecord):
			err = c.skipHello()
		case errors.Is(err, io.EOF):
			c.finish()
		}
		if err != nil {
			return 0, err
		}
	}
}

// skipHello takes a late HELLO of this very session and acknowledges it again.
// Anything else stays for Accept and ends the session.
func (c *guestConn) skipHello() error {
	b, err := c.seek()
	if err != nil {
		return err
	}
	n, ok := parseGreeting(b[len(helloMark):])
	if !ok || n != c.r.nonce || !bytes.HasPrefix(b, helloMark) {
		c.finish()
		return ErrSessionEnded
	}
	discard(c.l.r, helloLen)
	return c.l.ack(n)
}

// seek moves over a run of zeros to its last ones, where a HELLO begins, and
// returns a HELLO's worth of bytes without taking them. It may be repeated
// after an error.
func (c *guestConn) seek() ([]byte, error) {
	r := c.l.r
	for {
		b, err := r.Peek(helloLen)
		if err != nil {
			return nil, err
		}
		zeros := leadingZeros(b)
		if zeros <= shortRun {
			return b, nil
		}
		b, _ = r.Peek(r.Buffered())
		discard(r, leadingZeros(b)-shortRun)
	}
}

func leadingZeros(b []byte) int {
	for i, v := range b {
		if v != 0 {
			return i
		}
	}
	return len(b)
}

// finish ends the session for the guest's side. It is fine twice.
func (c *guestConn) finish() {
	c.ended.Store(true)
	c.once.Do(func() { close(c.done) })
}

func (c *guestConn) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.l.wmu.Lock()
	defer c.l.wmu.Unlock()
	if c.ended.Load() {
		return 0, ErrSessionEnded
	}
	return c.l.w.write(&c.r.nonce, p)
}

// Close tells the host that the session is over and lets Accept go on. It
// waits neither for a host that does not read nor for the session's own writer.
func (c *guestConn) Close() error {
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	c.finish()
	go c.farewell()
	return nil
}

// farewell is for a host that still believes in the session, whoever ended it.
func (c *guestConn) farewell() {
	c.l.wmu.Lock()
	defer c.l.wmu.Unlock()
	if c.l.acked == c.r.nonce {
		_, _ = c.l.w.write(&c.r.nonce, nil)
	}
}

func (c *guestConn) LocalAddr() net.Addr  { return pipeAddr{} }
func (c *guestConn) RemoteAddr() net.Addr { return pipeAddr{} }

func (c *guestConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *guestConn) SetReadDeadline(t time.Time) error {
	if c.ended.Load() {
		return net.ErrClosed
	}
	c.l.setReadDeadline(t)
	return nil
}

// SetWriteDeadline does nothing: a record that was begun must be finished.
func (c *guestConn) SetWriteDeadline(time.Time) error { return nil }
