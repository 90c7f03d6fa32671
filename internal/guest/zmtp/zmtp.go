// Package zmtp speaks ZeroMQ's wire protocol, ZMTP 3.0 without security, as the
// client of one peer on a unix socket. What a peer sends is bounded.
package zmtp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"time"
)

// Flags of a frame.
const (
	more    = 1
	long    = 2
	command = 4
)

// maxParts bounds the frames of one message.
const maxParts = 1 << 10

// ErrProtocol is of a peer that does not keep to the protocol.
var ErrProtocol = errors.New("peer breaks ZeroMQ's protocol")

// Conn is one connection. Send may be called concurrently; the rest may not.
type Conn struct {
	conn net.Conn
	r    *bufio.Reader
	wmu  sync.Mutex // one message at a time
}

// Dial connects to the socket at path as a socket of the type kind, DEALER or
// SUB. A ROUTER knows the connection by identity; a SUB subscribes to everything.
func Dial(ctx context.Context, path, kind, identity string) (*Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	c := &Conn{conn: conn, r: bufio.NewReaderSize(conn, 64<<10)}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err = c.greet(kind, identity)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, nil
}

func (c *Conn) greet(kind, identity string) error {
	greeting := make([]byte, 64)
	greeting[0], greeting[9], greeting[10] = 0xff, 0x7f, 3
	copy(greeting[12:], "NULL")
	ready := property(property([]byte("\x05READY"), "Socket-Type", kind), "Identity", identity)
	if _, err := c.conn.Write(append(greeting, frame(command, ready)...)); err != nil {
		return err
	}
	theirs := make([]byte, len(greeting))
	if _, err := io.ReadFull(c.r, theirs); err != nil {
		return err
	}
	if theirs[0] != 0xff || theirs[9]&1 == 0 || theirs[10] < 3 || !bytes.Equal(theirs[12:32], greeting[12:32]) {
		return fmt.Errorf("%w: greeting %x", ErrProtocol, theirs)
	}
	flags, size, err := c.head()
	if err != nil {
		return err
	}
	if flags&command == 0 || size > 1<<10 {
		return fmt.Errorf("%w: no READY", ErrProtocol)
	}
	if _, err := c.r.Discard(int(size)); err != nil {
		return err
	}
	if kind == "SUB" {
		return c.Send([]byte{1})
	}
	return nil
}

func property(b []byte, name, value string) []byte {
	b = append(append(b, byte(len(name))), name...)
	return append(binary.BigEndian.AppendUint32(b, uint32(len(value))), value...)
}

func frame(flags byte, body []byte) []byte {
	b := make([]byte, 0, 9+len(body))
	if len(body) > math.MaxUint8 {
		b = binary.BigEndian.AppendUint64(append(b, flags|long), uint64(len(body)))
	} else {
		b = append(b, flags, byte(len(body)))
	}
	return append(b, body...)
}

// Send sends one message.
func (c *Conn) Send(parts ...[]byte) error {
	var b []byte
	for n, part := range parts {
		flags := byte(more)
		if n == len(parts)-1 {
			flags = 0
		}
		b = append(b, frame(flags, part)...)
	}
	c.wmu.Lock()
	defer c.wmu.Unlock()
	_, err := c.conn.Write(b)
	return err
}

// Receive takes one message. Of one longer than limit only the first parts are
// kept, as many as fit, and left says how many bytes are not.
func (c *Conn) Receive(limit int64) (parts [][]byte, left int64, err error) {
	for {
		flags, size, err := c.head()
		if err != nil {
			return nil, 0, err
		}
		switch keep := flags&command == 0; {
		case keep && left == 0 && size <= limit:
			part, err := c.body(size)
			if err != nil {
				return nil, 0, err
			}
			parts, limit = append(parts, part), limit-size
		default:
			if _, err := io.CopyN(io.Discard, c.r, size); err != nil {
				return nil, 0, err
			}
			if keep {
				left += size
			}
		}
		if len(parts) > maxParts || left > math.MaxInt64/2 {
			return nil, 0, fmt.Errorf("%w: a message without end", ErrProtocol)
		}
		if flags&(more|command) == 0 {
			return parts, left, nil
		}
	}
}

func (c *Conn) head() (flags byte, size int64, err error) {
	if flags, err = c.r.ReadByte(); err != nil {
		return 0, 0, err
	}
	var b [8]byte
	n := 1
	if flags&long != 0 {
		n = 8
	}
	if _, err := io.ReadFull(c.r, b[8-n:]); err != nil {
		return 0, 0, err
	}
	length := binary.BigEndian.Uint64(b[:])
	if flags > 7 || length > math.MaxInt64/4 {
		return 0, 0, fmt.Errorf("%w: frame of %d bytes, flags %x", ErrProtocol, length, flags)
	}
	return flags, int64(length), nil
}

// body holds memory for no more than has arrived, doubled.
func (c *Conn) body(size int64) ([]byte, error) {
	var b bytes.Buffer
	if _, err := io.CopyN(&b, c.r, size); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Await says whether a message begins to arrive before the deadline.
func (c *Conn) Await(deadline time.Time) bool {
	_ = c.conn.SetReadDeadline(deadline)
	_, err := c.r.Peek(1)
	_ = c.conn.SetReadDeadline(time.Time{})
	return err == nil
}

// HangUp ends what is received at the deadline.
func (c *Conn) HangUp(deadline time.Time) { _ = c.conn.SetReadDeadline(deadline) }

// Close ends the connection.
func (c *Conn) Close() error { return c.conn.Close() }
