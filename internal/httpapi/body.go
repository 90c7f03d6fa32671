package httpapi

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// bodyIdle is how long a body may stop coming.
const bodyIdle = time.Minute

// patient bounds the time a client may keep silent in the middle of a body.
// There is no bound on the whole, because uploads are of any size, and none once
// the body is there, because a cell may run for hours.
func patient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			body := &idleBody{ReadCloser: r.Body, ctl: http.NewResponseController(w)}
			body.extend() // a refused request's body is read too, by the server itself
			r.Body = body
		}
		next.ServeHTTP(w, r)
	})
}

type idleBody struct {
	io.ReadCloser
	ctl    *http.ResponseController
	silent atomic.Bool // it stopped coming
}

func (b *idleBody) extend() {
	_ = b.ctl.SetReadDeadline(time.Now().Add(bodyIdle)) // not on every transport
}

func (b *idleBody) Read(p []byte) (int, error) {
	if b.silent.Load() {
		return 0, os.ErrDeadlineExceeded
	}
	b.extend()
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		// The deadline stays: it ends the server's own wait for the rest, which
		// comes before the answer.
		b.silent.Store(true)
	case err != nil:
		// The server goes on reading to notice a client that leaves; a deadline
		// left behind would look like one.
		_ = b.ctl.SetReadDeadline(time.Time{})
	}
	return n, err
}
