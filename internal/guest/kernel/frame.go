package kernel

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"pandastack/internal/guestproto"
)

// maxFrame bounds one message of a kernel.
const maxFrame = guestproto.MaxEvent - 1<<10 // it must fit an event line with its envelope

var errFrame = errors.New("kernel sent a bad frame")

// readFrame reads one length-prefixed frame. The slice is the caller's.
func readFrame(r *bufio.Reader) ([]byte, error) {
	head, err := r.Peek(4)
	if err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head)
	if n == 0 || n > maxFrame {
		return nil, fmt.Errorf("%w: length %d, limit %d", errFrame, n, maxFrame)
	}
	if _, err := r.Discard(4); err != nil {
		return nil, err
	}
	return readN(r, int(n))
}

// readN reads n bytes, holding memory for no more than has arrived, doubled.
func readN(r io.Reader, n int) ([]byte, error) {
	b := make([]byte, 0, min(n, 64<<10))
	for len(b) < n {
		if len(b) == cap(b) {
			b = append(make([]byte, 0, min(n, 2*cap(b))), b...)
		}
		got, err := io.ReadFull(r, b[len(b):min(n, cap(b))])
		b = b[:len(b)+got]
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// frame encodes v as a frame.
func frame(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(b) > maxFrame {
		return nil, guestproto.Errorf(guestproto.CodeInvalid, "message of %d bytes, limit %d", len(b), maxFrame)
	}
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(b)), uint32(len(b))), b...), nil
}

// metadata is an object, also where there is none.
type metadata map[string]json.RawMessage

func (m metadata) MarshalJSON() ([]byte, error) {
	if m == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(map[string]json.RawMessage(m))
}

type header struct {
	ID   string `json:"msg_id"`
	Type string `json:"msg_type"`
}

// message is a Jupyter message.
type message struct {
	Header   header          `json:"header"`
	Parent   header          `json:"parent_header"`
	Metadata metadata        `json:"metadata"`
	Content  json.RawMessage `json:"content"`
	Buffers  [][]byte        `json:"buffers,omitempty"` // of a message that is sent

	more []byte // of one that is received: metadata and buffers as they came, each with a comma before it
}

// parseMessage reads a message without walking through its content twice: that
// may be megabytes of picture. Content is an object in one line.
func parseMessage(b []byte) (m message, err error) {
	err = eachField(b, func(key, value []byte) error {
		switch string(key) {
		case `"header"`:
			return json.Unmarshal(value, &m.Header)
		case `"parent_header"`:
			return json.Unmarshal(value, &m.Parent)
		case `"content"`:
			m.Content = value
		case `"metadata"`, `"buffers"`:
			if len(value) > len("{}") {
				m.more = append(append(append(append(m.more, ','), key...), ':'), value...)
			}
		}
		return nil
	})
	if err != nil {
		return m, fmt.Errorf("%w: %w", errFrame, err)
	}
	if m.Header.Type == "" || len(m.Content) == 0 || m.Content[0] != '{' {
		return m, fmt.Errorf("%w: no message type or content", errFrame)
	}
	return m, oneLine(&m)
}

// oneLine takes line breaks between tokens out of the content.
func oneLine(m *message) error {
	if bytes.IndexByte(m.Content, '\n') < 0 {
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, m.Content); err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	m.Content = b.Bytes()
	return nil
}
