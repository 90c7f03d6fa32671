package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How long a port waits before it looks again for a host.
const (
	minWait = 2 * time.Millisecond
	maxWait = 20 * time.Millisecond
)

// The driver hands out at most one of its buffers, a page, for each read; a
// readv of pages gets many of them for one system call.
const (
	page     = 4096
	maxPages = 1
)

// port is a virtio-serial port. Its reads say end of file while no host is
// connected; here they wait. One goroutine may read.
type port struct {
	*os.File
	raw   syscall.RawConn
	pages [][]byte
}

func (p *port) Read(b []byte) (int, error) {
	wait := minWait
	for {
		n, err := p.readv(b)
		if n > 0 || (err != nil && !errors.Is(err, io.EOF)) {
			return n, err
		}
		time.Sleep(wait)
		wait = min(2*wait, maxWait)
	}
}

func (p *port) readv(b []byte) (n int, err error) {
	p.pages = p.pages[:0]
	for len(b) > 0 && len(p.pages) < maxPages {
		size := min(len(b), page)
		p.pages = append(p.pages, b[:size])
		b = b[size:]
	}
	waited := p.raw.Read(func(fd uintptr) bool {
		n, err = unix.Readv(int(fd), p.pages)
		return !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
	})
	if waited != nil {
		return 0, waited // its deadline
	}
	return max(n, 0), os.NewSyscallError("readv", err)
}

// OpenPort opens the virtio-serial port that the host named name.
func OpenPort(name string) (io.ReadWriteCloser, error) {
	labels, err := filepath.Glob("/sys/class/virtio-ports/*/name")
	if err != nil {
		return nil, err
	}
	for _, label := range labels {
		b, err := os.ReadFile(label)
		if err != nil || strings.TrimSpace(string(b)) != name {
			continue
		}
		return newPort("/dev/" + filepath.Base(filepath.Dir(label)))
	}
	return nil, fmt.Errorf("no virtio-serial port named %s among %d", name, len(labels))
}

func newPort(path string) (*port, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &port{File: f, raw: raw}, nil
}
