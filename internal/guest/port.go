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

// port is a virtio-serial port. Its reads say end of file while no host is
// connected; here they wait.
type port struct {
	*os.File
	raw syscall.RawConn
}

// Read waits for bytes and takes as many as are there. The driver hands out one
// page for each system call, however much is asked for.
func (p *port) Read(b []byte) (n int, err error) {
	for wait := minWait; n == 0 && err == nil && len(b) > 0; wait = min(2*wait, maxWait) {
		absent := false
		if rerr := p.raw.Read(func(fd uintptr) bool {
			n, absent, err = readPages(fd, b)
			return n > 0 || absent || err != nil
		}); rerr != nil {
			return n, rerr
		}
		if absent && n == 0 {
			time.Sleep(wait)
		}
	}
	return n, err
}

// readPages reads without waiting until b is full or nothing is left. The
// scheduler is not told of these calls, which are short and many: that would
// take as long as they do themselves.
func readPages(fd uintptr, b []byte) (n int, absent bool, err error) {
	for n < len(b) {
		got, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&b[n])), uintptr(len(b)-n))
		switch {
		case errno == syscall.EINTR:
		case errno == syscall.EAGAIN:
			return n, false, nil
		case errno != 0:
			return n, false, os.NewSyscallError("read", errno)
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

func openPort(device string) (guestproto.LanePipe, error) {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &port{f, raw}, nil
}

// OpenPort opens the virtio-serial port that the host named name.
func OpenPort(name string) (guestproto.LanePipe, error) {
	device, err := findPort(name)
	if err != nil {
		return nil, err
	}
	return openPort(device)
}

// LanePort gives what opens the port named name for a transfer, or nil where
// the machine has none.
func LanePort(name string) func() (guestproto.LanePipe, error) {
	device, err := findPort(name)
	if err != nil {
		return nil
	}
	return func() (guestproto.LanePipe, error) { return openPort(device) }
}
