package httpapi

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"
)

// deadlines keeps the latest deadline of a connection.
type deadlines struct {
	http.ResponseWriter
	last time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.last = t
	return nil
}

// failing is a body that gives its error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
func (failing) Close() error               { return nil }

func TestDeadlineAfterABody(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		kept bool
	}{
		{"all of it came", io.EOF, false},
		{"it was closed", http.ErrBodyReadAfterClose, false},
		{"it stopped coming", os.ErrDeadlineExceeded, true},
	} {
		conn := &deadlines{ResponseWriter: httptest.NewRecorder()}
		body := &idleBody{ReadCloser: failing{c.err}, ctl: http.NewResponseController(conn)}
		if _, err := body.Read(nil); !errors.Is(err, c.err) || conn.last.IsZero() == c.kept {
			t.Errorf("%s: got %v, deadline %v; want one kept: %v", c.name, err, conn.last, c.kept)
		}
		before := conn.last
		if _, err := body.Read(nil); !errors.Is(err, c.err) || c.kept && conn.last != before {
			t.Errorf("%s: a second read got %v, deadline %v; want no further patience", c.name, err, conn.last)
		}
	}
}
