package httpapi_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pandastack/internal/httpapi"
	"pandastack/internal/kit/logkey"
)

// counted remembers what an observer was told.
type counted struct {
	mu   sync.Mutex
	seen []string
}

func (c *counted) RequestDone(route string, status int, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, route+" "+http.StatusText(status))
}

func TestRequestsAreCountedByRouteAndLoggedWithTheirIDs(t *testing.T) {
	mux := &httpapi.Mux{}
	mux.HandleFunc("GET /v1/sandboxes/{id}", func(w http.ResponseWriter, r *http.Request) {
		httpapi.Tag(r.Context(), logkey.Execution, "ex1")
		w.WriteHeader(http.StatusOK)
	})
	mux.HandleFunc("GET /v1/sandboxes/{id}/panic", func(http.ResponseWriter, *http.Request) { panic("as asked") })
	var log bytes.Buffer
	observer := &counted{}
	server, err := httpapi.New(httpapi.Config{Keys: []string{"k"}, Log: slog.New(slog.NewTextHandler(&log, nil)), Observer: observer}, mux)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/sandboxes/box1", "/v1/sandboxes/box2/panic", "/v1/nothing/a-name-of-the-callers"} {
		r := httptest.NewRequest("GET", path, nil)
		r.Host = "localhost"
		r.Header.Set("Authorization", "Bearer k")
		server.ServeHTTP(httptest.NewRecorder(), r)
	}
	anonymous := httptest.NewRequest("GET", "/v1/sandboxes/box1", nil)
	anonymous.Host = "localhost"
	server.ServeHTTP(httptest.NewRecorder(), anonymous)
	want := []string{"GET /v1/sandboxes/{id} OK", "GET /v1/sandboxes/{id}/panic Internal Server Error", "none Not Found", "none Unauthorized"}
	if !slices.Equal(observer.seen, want) {
		t.Errorf("counted %q, want %q", observer.seen, want)
	}
	lines := strings.Split(log.String(), "\n")
	if !strings.Contains(lines[0], "sandbox=box1 execution=ex1") && !strings.Contains(lines[0], "execution=ex1 sandbox=box1") {
		t.Errorf("log: %s", lines[0])
	}
	if !strings.Contains(lines[1], "sandbox=box2") {
		t.Errorf("log of a panic: %s", lines[1])
	}
}

// waiting is an observer that is done when it is told so.
type waiting chan struct{}

func (w waiting) RequestDone(string, int, time.Duration) { <-w }

func TestAnAnswerDoesNotWaitForWhatIsNotedOfIt(t *testing.T) {
	heard := make(waiting)
	addr, stop := serve(t, httpapi.Config{Observer: heard}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "2")
		io.WriteString(w, "ok")
	})
	_, err := get(t, &http.Client{Timeout: 30 * time.Second}, "http://"+addr+"/v1/health")
	close(heard)
	if err := errors.Join(err, stop()); err != nil {
		t.Fatal(err)
	}
}
