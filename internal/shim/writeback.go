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

// WriteFile implements guestproto.Guest. The body may be read for a while after it
// returned, where the guest gave up first.
func (d eagerDisk) WriteFile(ctx context.Context, req guestproto.WriteRequest, body io.Reader) (guestproto.FileInfo, error) {
	if req.NoSync {
		return d.Guest.WriteFile(ctx, req, body)
	}
	ctx, over := context.WithCancel(ctx)
	defer over()
	w := &writeback{Reader: body, look: make(chan struct{}, 1)}
	go begin(ctx, d.path, w.look)
	return d.Guest.WriteFile(ctx, req, w)
}

// writeback counts what is read of a body.
type writeback struct {
	io.Reader
	come int
	look chan struct{} // never closed
}

func (w *writeback) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if w.come += n; w.come < writebackEvery {
		return n, err
	}
	w.come = 0
	select {
	case w.look <- struct{}{}:
	default: // it is still at the last one
	}
	return n, err
}

// begin asks the host, at each look until ctx ends, to write what of the file is in
// memory only, and waits for nothing of it. Where it fails, the fsync does all.
func begin(ctx context.Context, path string, look <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-look:
		}
		f, err := os.Open(path)
		if err != nil {
			return
		}
		_ = unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
		_ = f.Close()
	}
}
