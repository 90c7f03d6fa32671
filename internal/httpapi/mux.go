package httpapi

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"

	"pandastack/api"
	"pandastack/internal/panda"
)

// Mux routes requests and remembers its routes. What it has no route for is
// answered like every other error.
type Mux struct {
	mux http.ServeMux

	mu       sync.Mutex
	patterns []string
}

// HandleFunc adds a route. It panics on a pattern that conflicts with another.
func (m *Mux) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	m.mux.HandleFunc(pattern, handler)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.patterns = append(m.patterns, pattern)
}

// Patterns gives the routes in the order they were added.
func (m *Mux) Patterns() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.patterns...)
}

func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handler, pattern := m.mux.Handler(r)
	if pattern != "" {
		defer routed(r)
		m.mux.ServeHTTP(w, r)
		return
	}
	// Without a route the standard mux hands out a handler that says which of
	// two things is wrong; only its verdict is of use.
	verdict := verdict{header: http.Header{}}
	handler.ServeHTTP(&verdict, r)
	if verdict.status == http.StatusMethodNotAllowed {
		allow := verdict.header.Get("Allow")
		w.Header().Set("Allow", allow)
		WriteError(w, r, &panda.Error{
			Code:    api.CodeRequestMethodNotAllowed,
			Message: fmt.Sprintf("%.300s does not take %.20s, only %s", r.URL.Path, r.Method, allow),
		})
		return
	}
	WriteError(w, r, &panda.Error{
		Code:    api.CodeRequestNoSuchRoute,
		Message: fmt.Sprintf("no such path: %.300s", r.URL.Path),
	})
}

// verdict takes an answer that is not sent.
type verdict struct {
	bytes.Buffer
	header http.Header
	status int
}

func (v *verdict) Header() http.Header    { return v.header }
func (v *verdict) WriteHeader(status int) { v.status = status }
