package shim

import (
	"context"
	"io"

	"pandastack/internal/guestproto"
	"pandastack/internal/kit/durable"
)

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
	return d.Guest.WriteFile(ctx, req, &writeback{body, durable.NewAhead(ctx, d.path)})
}

// writeback counts what is read of a body.
type writeback struct {
	io.Reader
	ahead *durable.Ahead
}

func (w *writeback) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.ahead.Came(n)
	return n, err
}
