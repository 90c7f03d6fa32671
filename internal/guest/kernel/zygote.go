package kernel

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"

	"golang.org/x/sys/unix"

	"pandastack/internal/guest/reap"
)

// zygote is the Python process that all kernels are forked from: it has
// imported everything before the first of them is needed.
type zygote struct {
	cmd  *exec.Cmd
	conn *net.UnixConn

	callMu sync.Mutex // one call at a time
	answer chan zygoteAnswer

	children *children
	gone     chan struct{} // closed when the process was waited for
}

type zygoteCall struct {
	Op      string            `json:"op"`
	Imports []string          `json:"imports,omitempty"`
	Cells   []string          `json:"cells,omitempty"`
	ID      string            `json:"id,omitempty"`
	Cwd     string            `json:"cwd,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

type zygoteAnswer struct {
	OK     bool            `json:"ok"`
	Error  json.RawMessage `json:"error"`
	Errors []string        `json:"errors"`
	PID    int             `json:"pid"`
	Event  string          `json:"event"`
	Code   *int            `json:"code"`
	Signal *int            `json:"signal"`
}

// startZygote starts command with its socket as descriptor 3.
func startZygote(table *reap.Table, cmd *exec.Cmd, forked *children) (*zygote, error) {
	conn, theirs, err := socketpair()
	if err != nil {
		return nil, err
	}
	defer func() { _ = theirs.Close() }()
	cmd.ExtraFiles = []*os.File{theirs}
	if err := table.Start(cmd); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("start kernel host: %w", err)
	}
	z := &zygote{
		cmd: cmd, conn: conn,
		answer:   make(chan zygoteAnswer),
		children: forked,
		gone:     make(chan struct{}),
	}
	go z.read(table)
	return z, nil
}

// socketpair makes a stream socket pair; the second end is for a child.
func socketpair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "socketpair")
	ours := os.NewFile(uintptr(fds[0]), "socketpair")
	defer func() { _ = ours.Close() }()
	conn, err := net.FileConn(ours)
	if err != nil {
		_ = theirs.Close()
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	return conn.(*net.UnixConn), theirs, nil
}

// read takes answers and exit notices until the zygote ends, then waits for it.
func (z *zygote) read(table *reap.Table) {
	defer close(z.gone)
	r := bufio.NewReader(z.conn)
	for {
		b, err := readFrame(r)
		var a zygoteAnswer
		if err == nil {
			err = json.Unmarshal(b, &a)
		}
		if err != nil {
			break
		}
		if a.Event == "exit" {
			z.children.exited(a.PID, a.exit())
		} else if a.Event == "" {
			z.answer <- a
		}
	}
	close(z.answer)
	_ = z.conn.Close()
	_ = z.cmd.Process.Kill()
	_ = table.Wait(z.cmd)
}

func (a zygoteAnswer) exit() exit {
	e := exit{}
	if a.Code != nil {
		e.Code = *a.Code
	}
	if a.Signal != nil && *a.Signal != 0 {
		e.Code, e.Signal = -1, signalName(*a.Signal)
	}
	return e
}

// errHostEnded says that a call was not answered because there is nobody any more.
var errHostEnded = errors.New("the kernel host ended")

// call sends one call, with rights if not nil, and waits for its answer. A
// caller that gives up ends the zygote: its answer would be the next one's.
func (z *zygote) call(ctx context.Context, c zygoteCall, rights *os.File) (zygoteAnswer, error) {
	b, err := frame(c)
	if err != nil {
		return zygoteAnswer{}, err
	}
	z.callMu.Lock()
	defer z.callMu.Unlock()
	if err := z.write(b, rights); err != nil {
		return zygoteAnswer{}, fmt.Errorf("%w: %w", errHostEnded, err)
	}
	select {
	case a, open := <-z.answer:
		if !open {
			return a, fmt.Errorf("%w during %s", errHostEnded, c.Op)
		}
		if !a.OK {
			return a, fmt.Errorf("kernel host: %s: %s", c.Op, a.Error)
		}
		return a, nil
	case <-ctx.Done():
		z.stop()
		return zygoteAnswer{}, fmt.Errorf("kernel host: %s: %w", c.Op, ctx.Err())
	}
}

func (z *zygote) write(b []byte, rights *os.File) error {
	if rights != nil {
		n, _, err := z.conn.WriteMsgUnix(b, unix.UnixRights(int(rights.Fd())), nil)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	_, err := z.conn.Write(b)
	return err
}

// fork makes a kernel process that has said that it is ready.
func (z *zygote) fork(ctx context.Context, c zygoteCall) (*process, error) {
	conn, theirs, err := socketpair()
	if err != nil {
		return nil, err
	}
	c.Op = "fork"
	a, err := z.call(ctx, c, theirs)
	_ = theirs.Close()
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	p := newProcess(newFrames(conn), a.PID)
	z.children.add(p)
	return p, nil
}

// stop ends the zygote, not its kernels, and waits for it.
func (z *zygote) stop() {
	_ = z.conn.Close()
	for range z.answer { // an answer nobody waits for any more
	}
	<-z.gone
}
