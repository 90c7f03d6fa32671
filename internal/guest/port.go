package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"pandastack/internal/guestproto"
)

// How long a port waits before it looks again for a host.
const (
	minWait = 2 * time.Millisecond
	maxWait = 20 * time.Millisecond
)

const (
	// laneNap lets a page become many before they are fetched: to wait for each
	// costs more than to take it. The port holds 512 KiB meanwhile.
	laneNap = 500 * time.Microsecond
	// turn bounds what a call moves before others get the processor.
	turn = 256 << 10
)

// port is a virtio-serial port. Its reads say end of file while no host is
// connected; here they wait.
type port struct {
	*os.File
	raw syscall.RawConn
	nap time.Duration // 0 where bytes are wanted at once
}

// Read waits for bytes and takes what is there, or comes within naps. The
// driver hands out one page for each system call, however much is asked for.
func (p *port) Read(b []byte) (n int, err error) {
	b = b[:min(len(b), turn)]
	for wait := minWait; n < len(b); {
		got, absent := 0, false
		rerr := p.raw.Read(func(fd uintptr) bool {
			got, absent, err = move(syscall.SYS_READ, fd, b[n:])
			return n+got > 0 || absent || err != nil
		})
		n += got
		switch {
		case rerr != nil || err != nil:
			return n, errors.Join(rerr, err)
		case n > 0 && (got == 0 || p.nap == 0):
			return n, nil
		case n > 0 && n < len(b):
			time.Sleep(p.nap)
		case absent:
			time.Sleep(wait)
			wait = min(2*wait, maxWait)
		}
	}
	return n, nil
}

func (p *port) Write(b []byte) (n int, err error) {
	for n < len(b) {
		part, sent := b[n:min(len(b), n+turn)], 0
		rerr := p.raw.Write(func(fd uintptr) bool {
			sent, _, err = move(syscall.SYS_WRITE, fd, part)
			return sent > 0 || err != nil
		})
		n += sent
		if rerr != nil || err != nil {
			return n, errors.Join(rerr, err)
		}
		if sent < len(part) {
			time.Sleep(p.nap)
		}
	}
	return n, nil
}

// move reads or writes without waiting until b is done or nothing goes any
// more; none says that a call moved nothing. The scheduler is not told of these
// calls, which are short and many: that would take as long as they do.
func move(call, fd uintptr, b []byte) (n int, none bool, err error) {
	for n < len(b) {
		got, _, errno := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(&b[n])), uintptr(len(b)-n))
		switch {
		case errno == syscall.EINTR:
		case errno == syscall.EAGAIN:
			return n, false, nil
		case errno != 0:
			return n, false, os.NewSyscallError("port", errno)
		case got == 0:
			return n, true, nil
		default:
			n += int(got)
		}
	}
	return n, false, nil
}

var errNoPort = errors.New("no such virtio-serial port")

// findPort gives the device of the virtio-serial port that the host named name.
func findPort(name string) (string, error) {
	labels, err := filepath.Glob("/sys/class/virtio-ports/*/name")
	if err != nil {
		return "", err
	}
	for _, label := range labels {
		if b, err := os.ReadFile(label); err == nil && strings.TrimSpace(string(b)) == name {
			return "/dev/" + filepath.Base(filepath.Dir(label)), nil
		}
	}
	return "", fmt.Errorf("%w: %s, among %d", errNoPort, name, len(labels))
}

func openPort(device string, nap time.Duration) (guestproto.LanePipe, error) {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &port{f, raw, nap}, nil
}

// OpenPort opens the virtio-serial port that the host named name.
func OpenPort(name string) (guestproto.LanePipe, error) {
	device, err := findPort(name)
	if err != nil {
		return nil, err
	}
	return openPort(device, 0)
}

// LanePort gives what opens the port named name for a transfer, or nil where
// the machine has none.
func LanePort(name string) func() (guestproto.LanePipe, error) {
	device, err := findPort(name)
	if err != nil {
		return nil
	}
	return func() (guestproto.LanePipe, error) { return openPort(device, laneNap) }
}
