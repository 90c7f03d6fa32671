package guestproto

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// lane is the host's end.
type lane struct {
	conn net.Conn
	mu   sync.Mutex // held by a transfer from take to release
}

// UseLane lets large files travel through conn, the host's end of the second
// port of a guest whose Hello offers it. It comes before the first call about a
// file. The caller still owns conn and closes it when the machine is gone.
func (c *Client) UseLane(conn net.Conn) { c.lane = &lane{conn: conn} }

// transfer has the lane.
type transfer struct {
	lane  *lane
	nonce nonce
	in    *laneReader
	out   *laneWriter

	mu      sync.Mutex
	stopped bool // by cut
	over    bool
}

// take gives a new transfer the lane, or nil if there is none or it is taken.
func (l *lane) take() *transfer {
	if l == nil || !l.mu.TryLock() {
		return nil
	}
	t := &transfer{lane: l}
	_, _ = rand.Read(t.nonce[:]) // never fails
	t.nonce[0] |= 1              // as everywhere
	t.in, t.out = newLaneReader(l.conn, t.nonce), &laneWriter{l.conn, t.nonce}
	return t
}

// cut ends whatever the transfer waits for. It is fine at any time.
func (t *transfer) cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if !t.over {
		_ = t.lane.conn.SetDeadline(time.Unix(1, 0))
	}
}

func (t *transfer) isCut() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stopped
}

// release gives the lane back, which nobody may use for t any more.
func (t *transfer) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	_ = t.lane.conn.SetDeadline(time.Time{}) // a dead one tells the next
	t.lane.mu.Unlock()
}

// param is what a call about t carries.
func (t *transfer) param() string { return "&lane=" + t.nonce.String() }

// putFile sends body by the lane if it is large, the guest wants it and the
// lane is free. stop cancels ctx.
func (c *Client) putFile(ctx context.Context, stop context.CancelCauseFunc, path string, body io.Reader) (*http.Response, error) {
	if c.lane == nil {
		return c.send(ctx, http.MethodPut, path, body, -1)
	}
	head := make([]byte, bulkSize)
	n, err := Fill(body, head)
	switch {
	case errors.Is(err, io.EOF):
		return c.send(ctx, http.MethodPut, path, bytes.NewReader(head[:n]), int64(n))
	case err != nil:
		return nil, fmt.Errorf("guest /file: the body: %w", err)
	}
	body = io.MultiReader(bytes.NewReader(head), body)
	if t := c.lane.take(); t != nil {
		resp, err := c.putBulk(ctx, stop, t, path, body)
		if !errors.Is(err, errNoLane) {
			return resp, err
		}
	}
	return c.send(ctx, http.MethodPut, path, body, -1)
}

// errNoLane says that the guest could not use the lane, and that nothing of the
// body was read.
var errNoLane = errors.New("the guest has no lane")

func (c *Client) putBulk(ctx context.Context, stop context.CancelCauseFunc, t *transfer, path string, body io.Reader) (*http.Response, error) {
	begun, gone := make(chan bool, 1), make(chan struct{})
	watched := &watchedBody{Reader: body}
	go func() {
		defer close(gone)
		defer t.release()
		err := t.in.start(ackMark)
		begun <- err == nil
		if err == nil {
			err = t.send(watched)
		}
		if err != nil && !t.isCut() {
			stop(err)
		}
	}()
	resp, err := c.send(ctx, http.MethodPut, path+t.param(), nil, 0)
	t.cut() // whatever the answer is, there is nothing left to send
	if watched.ended.Load() {
		<-gone // else the body may be waiting for its client
	}
	var refusal *Error
	switch {
	case err == nil:
		return resp, nil
	case errors.As(err, &refusal) && refusal.Code == CodeNoLane && !<-begun:
		return nil, errNoLane
	case refusal == nil && context.Cause(ctx) != nil:
		err = fmt.Errorf("guest /file: %w: %w", ErrBroken, context.Cause(ctx))
	}
	return nil, err
}

// watchedBody knows whether it will be read again.
type watchedBody struct {
	io.Reader
	ended atomic.Bool
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil {
		b.ended.Store(true)
	}
	return n, err
}

func (t *transfer) send(body io.Reader) error {
	if err := t.out.start(helloMark); err != nil {
		return err
	}
	buf := make([]byte, bulkSize)
	for {
		n, err := Fill(body, buf)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if _, err := t.out.Write(buf[:n]); err != nil {
			return err
		}
		if err != nil {
			return t.out.end()
		}
	}
}

// getBulk is the body of a file of size bytes that comes by the lane, for the
// call that resp answers. It takes t over.
func getBulk(ctx context.Context, t *transfer, resp *http.Response, size int64) io.ReadCloser {
	b := &bulkBody{t: t, call: resp.Body, left: size, ended: make(chan error, 1)}
	b.unwatch = context.AfterFunc(ctx, t.cut)
	go b.watch()
	return b
}

type bulkBody struct {
	t       *transfer
	call    io.ReadCloser // of the call, which has none but ends when the guest's part does
	ended   chan error    // how it ended
	unwatch func() bool

	mu     sync.Mutex // held by Read
	begun  bool
	left   int64
	closed bool
}

// watch stops the transfer once the call has failed.
func (b *bulkBody) watch() {
	n, err := b.call.Read(make([]byte, 1))
	if n > 0 {
		err = errBadRecord
	}
	if !errors.Is(err, io.EOF) {
		b.t.cut()
	}
	b.ended <- err
}

func (b *bulkBody) Read(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, net.ErrClosed
	}
	if !b.begun {
		b.begun = true
		err = b.t.in.start(ackMark)
	}
	if err == nil {
		n, err = b.t.in.Read(p)
	}
	if b.left -= int64(n); b.left < 0 || (errors.Is(err, io.EOF) && b.left > 0) {
		err = errBadRecord
	}
	if errors.Is(err, io.EOF) {
		err = b.finish()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("guest /file: %w: %w", ErrBroken, err)
	}
	return n, err
}

// finish waits for the end of the call: then the guest has left the lane.
func (b *bulkBody) finish() error {
	err := <-b.ended
	b.ended <- err
	return err
}

func (b *bulkBody) Close() error {
	b.t.cut()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	b.unwatch()
	err := b.call.Close()
	b.t.release()
	return err
}
