package kernel

import (
	"bufio"
	"net"
	"sync"
)

// wire carries messages between the agent and one kernel process.
type wire interface {
	// send may be called concurrently.
	send(m message) error
	// receive waits for the next message. An error is the last it gives.
	receive() (message, error)
	// close ends what waits in the other two, and may be called twice.
	close() error
}

// frames is the wire of a process forked from the zygote: length-prefixed
// messages on a socket pair.
type frames struct {
	conn *net.UnixConn
	r    *bufio.Reader
	wmu  sync.Mutex // one frame at a time
}

func newFrames(conn *net.UnixConn) *frames {
	return &frames{conn: conn, r: bufio.NewReaderSize(conn, 64<<10)}
}

func (f *frames) send(m message) error {
	b, err := frame(m)
	if err != nil {
		return err
	}
	f.wmu.Lock()
	defer f.wmu.Unlock()
	_, err = f.conn.Write(b)
	return err
}

func (f *frames) receive() (message, error) {
	b, err := readFrame(f.r)
	if err != nil {
		return message{}, err
	}
	return parseMessage(b)
}

func (f *frames) close() error { return f.conn.Close() }
