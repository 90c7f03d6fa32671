package guestproto

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
)

// The bulk lane. In an emulated guest every copy, system call and change of
// goroutine is dear, so the bodies of large files do not travel in HTTP/2 but
// bare on the machine's second port, for one transfer at a time. Whoever finds
// the lane taken uses the stream. The call that a transfer belongs to is on the
// stream in any case, with a nonce that names the transfer:
//
//	PUT /file?lane=NONCE   guest: ACK    host: HELLO record... end    guest answers the call
//	GET /file?lane=NONCE   guest answers the call, with a laneHeader; ACK record... end
//
//	record = tag[8] length[4, big endian] payload[length]
//	end    = a record of length 0
//
// HELLO, ACK and tag are those of the record stream. What comes before them is
// left from transfers that were broken off, and is skipped. A record may be cut
// and continued by another host's bytes (a guest can be saved and restored in
// the middle of it), but then its end is missing, and only the end makes a file.
const (
	bulkSize      = 256 << 10 // what is large
	maxLaneRecord = 2 << 20   // payload bytes
	laneHeader    = "Pandastack-Lane"
	// maxStale bounds what is skipped: more than port and sockets can hold.
	maxStale = 16 << 20
)

var errStale = errors.New("guestproto: the lane is full of stale bytes")

func (n *nonce) String() string { return hex.EncodeToString(n[:]) }

func parseNonce(text string) (n nonce, err error) {
	b, err := hex.DecodeString(text)
	if err == nil && len(b) != nonceLen {
		err = fmt.Errorf("%d bytes", len(b))
	}
	copy(n[:], b)
	return n, err
}

// laneReader reads one transfer.
type laneReader struct {
	r     *bufio.Reader // small, so that payload goes past it
	bound *io.LimitedReader
	nonce nonce
	left  int // payload bytes of the current record
	end   error
}

func newLaneReader(r io.Reader, n nonce) *laneReader {
	bound := &io.LimitedReader{R: r, N: maxStale}
	return &laneReader{r: bufio.NewReaderSize(bound, 4<<10), bound: bound, nonce: n}
}

// start takes the greeting of this transfer and all before it.
func (lr *laneReader) start(mark []byte) error {
	for {
		switch n, err := scan(lr.r, mark); {
		case errors.Is(err, io.EOF) && lr.bound.N == 0:
			return errStale
		case err != nil:
			return err
		case n == lr.nonce:
			lr.bound.N = math.MaxInt64
			return nil
		}
	}
}

// Read gives payload before the rest of its record is proven. It ends with
// io.EOF only where the transfer does.
func (lr *laneReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if lr.left == 0 {
		if err := lr.next(); err != nil {
			return 0, err
		}
	}
	n, err := lr.r.Read(p[:min(len(p), lr.left)])
	lr.left -= n
	return n, cutShort(err)
}

func (lr *laneReader) next() error {
	if lr.end != nil {
		return lr.end
	}
	b, err := lr.r.Peek(headLen)
	if err != nil {
		return cutShort(err)
	}
	size := binary.BigEndian.Uint32(b[tagLen:])
	switch {
	case !bytes.Equal(b[:tagLen], lr.nonce.tag()) || size > maxLaneRecord:
		lr.end = errBadRecord
	case size == 0:
		lr.end = io.EOF
	}
	discard(lr.r, headLen)
	lr.left = int(size)
	return lr.end
}

// cutShort makes an end that came without its record an error.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// laneWriter sends one transfer.
type laneWriter struct {
	w     io.Writer
	nonce nonce
}

// start greets and is the first to write.
func (lw *laneWriter) start(mark []byte) error {
	_, err := lw.w.Write(greeting(mark, lw.nonce))
	return err
}

// Write sends p.
func (lw *laneWriter) Write(p []byte) (n int, err error) {
	for n < len(p) {
		part := p[n:min(len(p), n+maxLaneRecord)]
		if _, err := lw.w.Write(lw.head(nil, len(part))); err != nil {
			return n, err
		}
		if _, err := lw.w.Write(part); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

func (lw *laneWriter) end() error {
	_, err := lw.w.Write(lw.head(nil, 0))
	return err
}

func (lw *laneWriter) head(b []byte, size int) []byte {
	return binary.BigEndian.AppendUint32(append(b, lw.nonce.tag()...), uint32(size))
}

// Fill reads until buf is full or r ends, with r's own error: io.ReadFull would
// hide whether r ended or was cut.
func Fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var got int
		got, err = r.Read(buf[n:])
		n += got
	}
	return n, err
}
