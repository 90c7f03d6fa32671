package kernel

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"pandastack/internal/guest/zmtp"
	"pandastack/internal/guestproto"
)

const (
	dialEvery   = 20 * time.Millisecond  // a socket that the kernel has not made yet
	echoLimit   = 500 * time.Millisecond // until a kernel that publishes nothing is asked again
	hangUpLimit = time.Second            // to read what a kernel that ended has left
)

// The kernel's sockets. Their numbers in file names begin with 1: 0 has the kernel choose.
const (
	shellSocket = iota
	iopubSocket
	stdinSocket
	controlSocket
	heartbeat // the process is watched instead
)

var delimiter = []byte("<IDS|MSG>")

// jupyter is the wire of a kernel that speaks Jupyter's protocol: signed
// multipart messages on ZeroMQ sockets in a folder of its own.
type jupyter struct {
	dir     string
	key     string
	session string
	sockets [heartbeat]*zmtp.Conn

	in      chan message // closed when all sockets ended
	readers sync.WaitGroup
	closing chan struct{}
	once    sync.Once

	mu    sync.Mutex
	err   error      // why the wire broke, if it did
	cell  cellState  // of the newest execution
	asked jsonHeader // of the newest input_request
}

// cellState holds a cell's reply back until all its output is here: they come
// by different sockets.
type cellState struct {
	id     string
	comm   bool // it is a comm message: idle is its end
	idle   bool
	failed bool     // an error was shown
	reply  *message // that waits
}

type jsonHeader = json.RawMessage

// newJupyter makes the folder and the connection file in it.
func newJupyter() (*jupyter, error) {
	dir, err := os.MkdirTemp("", "kernel-")
	if err != nil {
		return nil, err
	}
	j := &jupyter{dir: dir, key: rand.Text(), session: rand.Text(), in: make(chan message), closing: make(chan struct{})}
	b, err := json.Marshal(map[string]any{
		"transport": "ipc", "ip": filepath.Join(dir, "s"), "key": j.key, "signature_scheme": "hmac-sha256",
		"shell_port": shellSocket + 1, "iopub_port": iopubSocket + 1, "stdin_port": stdinSocket + 1, "control_port": controlSocket + 1, "hb_port": heartbeat + 1,
	})
	if err == nil {
		err = os.WriteFile(j.file(), b, 0o600)
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return j, nil
}

func (j *jupyter) file() string { return filepath.Join(j.dir, "connection.json") }

// open connects and waits until the kernel answers and is heard.
func (j *jupyter) open(ctx context.Context) error {
	for n := range j.sockets {
		kind := "DEALER"
		if n == iopubSocket {
			kind = "SUB"
		}
		if err := j.dial(ctx, n, kind); err != nil {
			return err
		}
	}
	stop := context.AfterFunc(ctx, j.closeSockets)
	defer stop()
	for try := 0; ; try++ {
		if err := j.send(message{Header: header{ID: fmt.Sprint("info-", try), Type: "kernel_info_request"}, Content: []byte("{}")}); err != nil {
			return err
		}
		if _, _, err := j.sockets[shellSocket].Receive(maxFrame); err != nil {
			return err
		}
		if j.sockets[iopubSocket].Await(time.Now().Add(echoLimit)) {
			break
		}
	}
	if !stop() {
		return ctx.Err()
	}
	j.readers.Add(len(j.sockets))
	for n := range j.sockets {
		go j.read(n)
	}
	go func() {
		j.readers.Wait()
		close(j.in)
	}()
	return nil
}

func (j *jupyter) dial(ctx context.Context, n int, kind string) error {
	tick := time.NewTicker(dialEvery)
	defer tick.Stop()
	for {
		c, err := zmtp.Dial(ctx, fmt.Sprintf("%s/s-%d", j.dir, n+1), kind, j.session)
		if err == nil {
			j.sockets[n] = c
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// read takes one socket's messages. If one ends, what the others still hold is
// all that will come.
func (j *jupyter) read(n int) {
	defer j.readers.Done()
	defer j.hangUp()
	for {
		parts, left, err := j.sockets[n].Receive(maxFrame)
		if err == nil {
			err = j.take(parts, left)
		}
		if errors.Is(err, zmtp.ErrProtocol) {
			err = fmt.Errorf("%w: %w", errFrame, err)
		}
		if err != nil {
			j.mu.Lock()
			defer j.mu.Unlock()
			if j.err == nil || errors.Is(err, errFrame) {
				j.err = err
			}
			return
		}
	}
}

// take passes one message on, or holds it back.
func (j *jupyter) take(parts [][]byte, left int64) error {
	m, head, err := j.decode(parts, left)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	c := &j.cell
	mine := c.id != "" && m.Parent.ID == c.id
	switch {
	case m.Header.Type == "status":
		if mine {
			if c.idle = c.idle || isIdle(m); c.idle && c.comm {
				j.cell = cellState{}
				j.pass(m)
			}
		}
	case mine && m.Header.Type == "execute_reply":
		c.reply = &m
	default:
		if m.Header.Type == guestproto.EventInput {
			j.asked = head
		}
		if m.Header.Type == guestproto.EventError {
			c.failed = c.failed || mine
			m = named(m, anyError)
		}
		j.pass(m)
	}
	if mine && c.idle && c.reply != nil {
		j.endCell()
	}
	return nil
}

// isIdle says whether m, a status, says so.
func isIdle(m message) bool { return bytes.Contains(m.Content, []byte(`"idle"`)) }

// Names of errors that a kernel gives none.
const (
	anyError    = "Error"
	interrupted = "KeyboardInterrupt"
)

// endCell passes the cell's reply on. Some kernels tell of an error only there.
func (j *jupyter) endCell() {
	m, failed := *j.cell.reply, j.cell.failed
	j.cell = cellState{}
	var reply struct {
		Status string `json:"status"`
	}
	if json.Unmarshal(m.Content, &reply) == nil && reply.Status != guestproto.StatusOK && !failed {
		name := anyError
		if reply.Status != guestproto.StatusError { // abort, aborted
			name = interrupted
		}
		j.pass(named(m, name))
	}
	j.pass(m)
}

// named makes m the error it tells of, with a name if it has none.
func named(m message, name string) message {
	var e guestproto.CellError
	if json.Unmarshal(m.Content, &e) == nil && e.Name != "" && m.Header.Type == guestproto.EventError {
		return m
	}
	if e.Name == "" {
		e.Name = name
	}
	if e.Traceback == nil {
		e.Traceback = []string{}
	}
	m.Header.Type = guestproto.EventError
	m.Content, _ = json.Marshal(e)
	return m
}

func (j *jupyter) pass(m message) {
	select {
	case j.in <- m:
	case <-j.closing:
	}
}

// decode checks and reads one message, and gives its header as it came.
func (j *jupyter) decode(parts [][]byte, left int64) (m message, head []byte, err error) {
	for len(parts) > 0 && !bytes.Equal(parts[0], delimiter) { // addresses, topics
		parts = parts[1:]
	}
	if len(parts) < 4 {
		return m, nil, fmt.Errorf("%w: %d parts", errFrame, len(parts))
	}
	if head = parts[2]; json.Unmarshal(head, &m.Header) != nil || json.Unmarshal(parts[3], &m.Parent) != nil {
		return m, nil, fmt.Errorf("%w: no headers", errFrame)
	}
	if left > 0 {
		return leftOut(m, left), head, nil
	}
	if len(parts) < 6 || !hmac.Equal(parts[1], j.sign(parts[2:6]...)) {
		return m, nil, fmt.Errorf("%w: %d parts, or signed by another", errFrame, len(parts))
	}
	if m.Content = asText(parts[5]); m.Header.Type == "" || len(m.Content) == 0 || m.Content[0] != '{' || !json.Valid(m.Content) {
		return m, nil, fmt.Errorf("%w: no message type or content", errFrame)
	}
	if err := oneLine(&m); err != nil {
		return m, nil, err
	}
	m.more, err = besides(asText(parts[4]), parts[6:])
	return m, head, err
}

// asText makes UTF-8 of JSON: for a Python string's lone surrogate ipykernel sends a byte that is none.
func asText(b []byte) []byte { return bytes.ToValidUTF8(b, []byte("\uFFFD")) }

// leftOut stands for a message that was too long.
func leftOut(m message, left int64) message {
	text := fmt.Sprintf("[%s of more than %d bytes left out: %d]\n", m.Header.Type, maxFrame, left)
	m.Header.Type = guestproto.EventStream
	m.Content, _ = json.Marshal(guestproto.Stream{Name: "stderr", Text: text})
	return m
}

// besides gives metadata and buffers as our own kernel sends them.
func besides(metadata []byte, buffers [][]byte) ([]byte, error) {
	var b []byte
	if len(metadata) > len("{}") {
		if !json.Valid(metadata) {
			return nil, fmt.Errorf("%w: metadata", errFrame)
		}
		b = append([]byte(`,"metadata":`), metadata...)
	}
	for n, buffer := range buffers {
		if n == 0 {
			b = append(b, `,"buffers":["`...)
		} else {
			b = append(b, `,"`...)
		}
		b = append(base64.StdEncoding.AppendEncode(b, buffer), '"')
	}
	if len(buffers) > 0 {
		b = append(b, ']')
	}
	return b, nil
}

func (j *jupyter) sign(parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, []byte(j.key))
	for _, part := range parts {
		_, _ = mac.Write(part)
	}
	return hex.AppendEncode(nil, mac.Sum(nil))
}

func (j *jupyter) send(m message) error {
	head, err := json.Marshal(map[string]string{
		"msg_id": m.Header.ID, "msg_type": m.Header.Type, "session": j.session, "username": "pandastack",
		"date": time.Now().UTC().Format(time.RFC3339Nano), "version": "5.3",
	})
	if err != nil {
		return err
	}
	socket, parent := shellSocket, jsonHeader("{}")
	j.mu.Lock()
	switch m.Header.Type {
	case "execute_request":
		j.cell = cellState{id: m.Header.ID}
	case guestproto.CommOpen, guestproto.CommMsg, guestproto.CommClose: // no reply follows
		j.cell = cellState{id: m.Header.ID, comm: true}
	case "input_reply":
		socket, parent = stdinSocket, j.asked
	case "interrupt_request":
		socket = controlSocket
	}
	j.mu.Unlock()
	about, err := json.Marshal(m.Metadata)
	if err != nil {
		return err
	}
	body := [][]byte{head, parent, about, m.Content}
	parts := append([][]byte{delimiter, j.sign(body...)}, body...)
	return j.sockets[socket].Send(append(parts, m.Buffers...)...)
}

func (j *jupyter) receive() (message, error) {
	if m, open := <-j.in; open {
		return m, nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return message{}, j.err
}

// hangUp gives the sockets a moment to end.
func (j *jupyter) hangUp() {
	for _, c := range j.sockets {
		if c != nil {
			c.HangUp(time.Now().Add(hangUpLimit))
		}
	}
}

func (j *jupyter) closeSockets() {
	for _, c := range j.sockets {
		if c != nil {
			_ = c.Close()
		}
	}
}

func (j *jupyter) close() error {
	j.once.Do(func() {
		close(j.closing)
		j.closeSockets()
	})
	return os.RemoveAll(j.dir)
}
