package guestproto

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// LanePipe is the guest's end of the second port, opened for one transfer.
// Deadlines end reads and writes that wait.
type LanePipe interface {
	io.ReadWriteCloser
	SetDeadline(t time.Time) error
}

// guestLane gives the port to one transfer at a time.
type guestLane struct {
	open func() (LanePipe, error) // nil: there is no port

	mu sync.Mutex // held by a transfer from take to leave
}

// guestTransfer has the port.
type guestTransfer struct {
	lane    *guestLane
	pipe    LanePipe
	in      *laneReader
	out     *laneWriter
	unwatch func() bool
	left    bool
}

// take opens the port for the transfer that is called name. The end of ctx, as
// when the host goes away or says HELLO anew, breaks it off.
func (l *guestLane) take(ctx context.Context, name string) (*guestTransfer, error) {
	n, err := parseNonce(name)
	if err != nil {
		return nil, Errorf(CodeInvalid, "lane: want a nonce in hex, got %.40q", name)
	}
	if l.open == nil || !l.mu.TryLock() {
		return nil, Errorf(CodeNoLane, "the lane is not free")
	}
	pipe, err := l.open()
	if err != nil { // a process of the user has opened it, as root may
		l.mu.Unlock()
		return nil, Errorf(CodeNoLane, "the lane: %v", err)
	}
	t := &guestTransfer{lane: l, pipe: pipe, in: newLaneReader(pipe, n), out: &laneWriter{pipe, n}}
	t.unwatch = context.AfterFunc(ctx, func() { _ = pipe.SetDeadline(time.Unix(1, 0)) })
	return t, nil
}

// leave closes the port, with what nobody has read, before the host may begin
// another transfer. It is fine twice.
func (t *guestTransfer) leave() {
	if t.left {
		return
	}
	t.left = true
	t.unwatch()
	_ = t.pipe.Close()
	t.lane.mu.Unlock()
}

// bulkUpload is the body of a file that comes by the lane. Its first Read tells
// the host to begin.
type bulkUpload struct {
	*guestTransfer
	begun bool
}

func (u *bulkUpload) Read(p []byte) (int, error) {
	if !u.begun {
		u.begun = true
		if err := u.out.start(ackMark); err != nil {
			return 0, err
		}
		if err := u.in.start(helloMark); err != nil {
			return 0, err
		}
	}
	return u.in.Read(p)
}

// sendBulk answers a call with f, of size bytes, on the lane.
func (t *guestTransfer) sendBulk(w http.ResponseWriter, f io.Reader, size int64) error {
	w.Header().Set(laneHeader, "1")
	if err := http.NewResponseController(w).Flush(); err != nil {
		return err
	}
	if err := t.out.start(ackMark); err != nil {
		return err
	}
	if err := copyFile(t.out, f, size); err != nil {
		return err
	}
	return t.out.end()
}
