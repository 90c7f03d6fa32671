package shim

import (
	"context"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"pandastack/internal/guestproto"
)

// writebackEvery is how much of an upload comes between two looks at the disk.
const writebackEvery = 8 << 20

// eagerDisk is a guest whose disk, a file here, begins to be written while an upload
// still comes, so that the guest's fsync at its end waits for less.
type eagerDisk struct {
	guestproto.Guest
	path string
}

// WriteFile implements guestproto.Guest.
func (d eagerDisk) WriteFile(ctx context.Context, req guestproto.WriteRequest, body io.Reader) (guestproto.FileInfo, error) {
	if req.NoSync {
		return d.Guest.WriteFile(ctx, req, body)
	}
	w := &writeback{Reader: body, path: d.path}
	defer w.close()
	return d.Guest.WriteFile(ctx, req, w)
}

// writeback counts what is read of a body. Its goroutine begins with the first
// writebackEvery bytes and ends with close.
type writeback struct {
	io.Reader
	path string
	come int
	look chan struct{}
}

func (w *writeback) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if w.come += n; w.come < writebackEvery {
		return n, err
	}
	w.come = 0
	if w.look == nil {
		w.look = make(chan struct{}, 1)
		go begin(w.path, w.look)
	}
	select {
	case w.look <- struct{}{}:
	default: // it is still at the last one
	}
	return n, err
}

func (w *writeback) close() {
	if w.look != nil {
		close(w.look)
	}
}

// begin asks the host to write what of the file is in memory only, and waits for
// nothing of it. Where it fails, the fsync does all.
func begin(path string, look <-chan struct{}) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	for range look {
		if unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE) != nil {
			return
		}
	}
}
