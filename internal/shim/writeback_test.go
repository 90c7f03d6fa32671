package shim

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"pandastack/internal/guestproto"
	"pandastack/internal/kit/durable"
)

// quitter gives an upload up and goes on reading its body, as the sender of a large
// file does until its client has sent what it waits for.
type quitter struct {
	guestproto.Guest
	read chan int64
}

func (q quitter) WriteFile(_ context.Context, _ guestproto.WriteRequest, body io.Reader) (guestproto.FileInfo, error) {
	body = struct{ io.Reader }{body}
	before, _ := io.CopyN(io.Discard, body, durable.AheadEvery)
	go func() {
		after, _ := io.Copy(io.Discard, body)
		q.read <- before + after
	}()
	return guestproto.FileInfo{}, errGaveUp
}

var errGaveUp = errors.New("gave up")

func TestBodyThatIsReadAfterItsUpload(t *testing.T) {
	const size = 4 * durable.AheadEvery
	q := quitter{read: make(chan int64)}
	d := eagerDisk{q, filepath.Join(t.TempDir(), "disk")}
	body := io.LimitReader(noughts{}, size)
	if _, err := d.WriteFile(t.Context(), guestproto.WriteRequest{}, body); !errors.Is(err, errGaveUp) {
		t.Fatal(err)
	}
	if n := <-q.read; n != size {
		t.Errorf("read %d bytes of %d", n, size)
	}
}

type noughts struct{}

func (noughts) Read(p []byte) (int, error) { return len(p), nil }
