package durable

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// AheadEvery is how many bytes come between two looks at the file.
const AheadEvery = 8 << 20

// Ahead has what is in memory of a file written to its disk while more of it comes, so
// that the fsync at the end waits for less. Where that fails, the fsync does all.
type Ahead struct {
	come int
	look chan struct{} // never closed
}

// NewAhead watches the file at path until ctx ends.
func NewAhead(ctx context.Context, path string) *Ahead {
	a := &Ahead{look: make(chan struct{}, 1)}
	go a.write(ctx, path)
	return a
}

// Came counts n more bytes. It waits for nothing, and is for one goroutine.
func (a *Ahead) Came(n int) {
	if a.come += n; a.come < AheadEvery {
		return
	}
	a.come = 0
	select {
	case a.look <- struct{}{}:
	default: // it is still at the last one
	}
}

func (a *Ahead) write(ctx context.Context, path string) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.look:
		}
		f, err := os.Open(path)
		if err != nil {
			return
		}
		_ = unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
		_ = f.Close()
	}
}
