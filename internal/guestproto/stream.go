package guestproto

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"time"
)

// The record stream. One byte pipe joins host and guest, and neither end can
// trust it to say when the other one was replaced: a host that reconnects at
// once is invisible to the guest, and either side may find bytes meant for a
// predecessor. So bytes travel in records that name their session:
//
//	record = tag[8] length[4, big endian] payload[length] tag[8]
//	HELLO  = zeros[>= 8] "PNDhelo\x01" nonce[16] crc32[4]   host to guest
//	ACK    = "PNDackn\x01" nonce[16] crc32[4]               guest to host
//
// The tag is the nonce's first half and never starts with a zero byte, so a
// zero where a record should start announces HELLO. The tag's second copy
// proves that the record was not cut and continued by another host's bytes;
// nothing of a record is delivered before it was seen. A record of length 0
// ends its session. A guest that is inside a cut record leaves it when a HELLO
// with a run of zeros longer than any record arrives.
const (
	tagLen     = 8
	nonceLen   = 16
	headLen    = tagLen + 4
	frameLen   = headLen + tagLen
	greetLen   = 8 + nonceLen + 4
	helloLen   = 8 + greetLen
	shortRun   = 8
	longRun    = MaxRecord + frameLen
	bufferLen  = 128 << 10
	maxPayload = MaxRecord - frameLen // what we send: a whole record is one device write
)

var (
	helloMark = []byte("\x00\x00\x00\x00\x00\x00\x00\x00PNDhelo\x01")
	ackMark   = []byte("PNDackn\x01")
)

// ErrSessionEnded is what a session's calls return once the peer has started
// another one or sent bytes that are no records.
var ErrSessionEnded = errors.New("guestproto: session ended")

type nonce [nonceLen]byte

func (n *nonce) tag() []byte { return n[:tagLen] }

// greeting is mark, nonce and checksum.
func greeting(mark []byte, n nonce) []byte {
	b := append(bytes.Clone(mark), n[:]...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(n[:]))
}

func hello(n nonce, zeros int) []byte {
	return append(make([]byte, zeros-shortRun), greeting(helloMark, n)...)
}

// parseGreeting reads what follows the mark.
func parseGreeting(b []byte) (n nonce, ok bool) {
	copy(n[:], b)
	return n, crc32.ChecksumIEEE(n[:]) == binary.BigEndian.Uint32(b[nonceLen:]) && n[0] != 0
}

// scan discards bytes until a greeting with this mark, takes it and returns its
// nonce. It may be called again after an error: nothing of a greeting is lost.
func scan(r *bufio.Reader, mark []byte) (nonce, error) {
	whole := len(mark) + nonceLen + 4
	for {
		b, err := r.Peek(whole)
		if err != nil {
			return nonce{}, err
		}
		if bytes.HasPrefix(b, mark) {
			if n, ok := parseGreeting(b[len(mark):]); ok {
				discard(r, whole)
				return n, nil
			}
		}
		b, _ = r.Peek(r.Buffered())
		if i := bytes.Index(b[1:], mark); i >= 0 {
			discard(r, i+1)
		} else {
			discard(r, len(b)-len(mark)+1)
		}
	}
}

// discard drops bytes that were peeked, so it cannot fail.
func discard(r *bufio.Reader, n int) { _, _ = r.Discard(n) }

var errBadRecord = errors.New("guestproto: bad record")

// recordReader takes the payloads of one session's records from r.
type recordReader struct {
	r     *bufio.Reader
	nonce nonce
	left  int // payload bytes of a proven record, all of them in r's buffer
}

// next proves the record that r is at and sets left. A record without payload
// is io.EOF. After an error nothing was taken.
func (rr *recordReader) next() error {
	b, err := rr.r.Peek(headLen)
	if err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(b[tagLen:])
	if !bytes.Equal(b[:tagLen], rr.nonce.tag()) || size > MaxRecord {
		return errBadRecord
	}
	whole := frameLen + int(size)
	if b, err = rr.r.Peek(whole); err != nil {
		return err
	}
	if !bytes.Equal(b[whole-tagLen:], rr.nonce.tag()) {
		return errBadRecord
	}
	if size == 0 {
		return io.EOF
	}
	discard(rr.r, headLen)
	rr.left = int(size)
	return nil
}

// take copies payload that next has proven.
func (rr *recordReader) take(p []byte) int {
	b, _ := rr.r.Peek(rr.left)
	n := copy(p, b)
	discard(rr.r, n)
	if rr.left -= n; rr.left == 0 {
		discard(rr.r, tagLen)
	}
	return n
}

// recordWriter frames payloads. Its owner serialises the calls.
type recordWriter struct {
	w   io.Writer
	buf []byte
}

// write sends p as records and returns the bytes of p in records that were
// written as a whole.
func (rw *recordWriter) write(n *nonce, p []byte) (done int, err error) {
	for {
		part := p[done:min(len(p), done+maxPayload)]
		rw.buf = append(rw.buf[:0], n.tag()...)
		rw.buf = binary.BigEndian.AppendUint32(rw.buf, uint32(len(part)))
		rw.buf = append(rw.buf, part...)
		rw.buf = append(rw.buf, n.tag()...)
		if _, err := rw.w.Write(rw.buf); err != nil {
			return done, err
		}
		if done += len(part); done == len(p) {
			return done, nil
		}
	}
}

// deadliner is the part of net.Conn that files and sockets share.
type deadliner interface {
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// pipeAddr names both ends of a pipe that has no addresses.
type pipeAddr struct{}

func (pipeAddr) Network() string { return "pandastack" }
func (pipeAddr) String() string  { return "guest" }

var _ net.Addr = pipeAddr{}
