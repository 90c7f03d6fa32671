package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// How long a port waits before it looks again for a host.
const (
	minWait = 2 * time.Millisecond
	maxWait = 20 * time.Millisecond
)

// port is a virtio-serial port. Its reads say end of file while no host is
// connected; here they wait. (The driver hands out one page for each read. To
// take more of them at once with readv gained nothing: the VMM's 4 KiB per turn
// of its loop is the limit.)
type port struct{ *os.File }

func (p port) Read(b []byte) (int, error) {
	wait := minWait
	for {
		n, err := p.File.Read(b)
		if n > 0 || (err != nil && !errors.Is(err, io.EOF)) {
			return n, err
		}
		time.Sleep(wait)
		wait = min(2*wait, maxWait)
	}
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
		f, err := os.OpenFile("/dev/"+filepath.Base(filepath.Dir(label)), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		return port{f}, nil
	}
	return nil, fmt.Errorf("no virtio-serial port named %s among %d", name, len(labels))
}
