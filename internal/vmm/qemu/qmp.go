package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pandastack/internal/kit/failpoint"
)

// monitor is a QMP connection. One command runs at a time.
type monitor struct {
	mu   sync.Mutex
	conn *net.UnixConn
	dec  *json.Decoder
}

type qmpAnswer struct {
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
	Event string          `json:"event"`
	QMP   json.RawMessage `json:"QMP"`
}

// newMonitor waits for QEMU's greeting and leaves negotiation mode.
func newMonitor(ctx context.Context, conn *net.UnixConn) (*monitor, error) {
	m := &monitor{conn: conn, dec: json.NewDecoder(bufio.NewReaderSize(conn, 16<<10))}
	m.setDeadline(ctx)
	var greeting qmpAnswer
	if err := m.dec.Decode(&greeting); err != nil {
		return nil, fmt.Errorf("qmp greeting: %w", err)
	}
	return m, m.run(ctx, "qmp_capabilities", nil, nil)
}

func (m *monitor) setDeadline(ctx context.Context) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(time.Minute) // QEMU's main loop answers in milliseconds or not at all
	}
	_ = m.conn.SetDeadline(deadline)
}

// run executes one command and decodes its return value into result, if any.
func (m *monitor) run(ctx context.Context, command string, args any, result any) error {
	return m.runWithFile(ctx, command, args, result, nil)
}

// runWithFile also hands a file's descriptor to QEMU (for getfd and add-fd).
func (m *monitor) runWithFile(ctx context.Context, command string, args any, result any, file *os.File) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.setDeadline(ctx)
	request := map[string]any{"execute": command}
	if args != nil {
		request["arguments"] = args
	}
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	failpoint.Hit("qmp " + command)
	var oob []byte
	if file != nil {
		oob = unix.UnixRights(int(file.Fd()))
	}
	if _, _, err := m.conn.WriteMsgUnix(append(text, '\n'), oob, nil); err != nil {
		return fmt.Errorf("qmp %s: %w", command, err)
	}
	answer, err := m.next()
	if err != nil {
		return fmt.Errorf("qmp %s: %w", command, err)
	}
	if answer.Error != nil {
		return fmt.Errorf("qmp %s: %s: %s", command, answer.Error.Class, answer.Error.Desc)
	}
	if result != nil {
		return json.Unmarshal(answer.Return, result)
	}
	return nil
}

// next reads up to the next answer; events are of no use here, since every
// state we wait for is asked for.
func (m *monitor) next() (qmpAnswer, error) {
	for {
		var a qmpAnswer
		if err := m.dec.Decode(&a); err != nil {
			return a, err
		}
		if a.Event == "" {
			return a, nil
		}
	}
}

func (m *monitor) status(ctx context.Context) (string, error) {
	var s struct {
		Status string `json:"status"`
	}
	err := m.run(ctx, "query-status", nil, &s)
	return s.Status, err
}
