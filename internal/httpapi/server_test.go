package httpapi_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"pandastack/internal/httpapi"
)

// serve runs a server and gives its address and a function that stops it and
// waits.
func serve(t *testing.T, cfg httpapi.Config, handler http.HandlerFunc) (addr string, stop func() error) {
	t.Helper()
	cfg.Keys, cfg.Log = []string{"pds_k"}, slog.New(slog.DiscardHandler)
	server, err := httpapi.New(cfg, handler)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, ln) }()
	return ln.Addr().String(), func() error { cancel(); return <-done }
}

func get(t *testing.T, c *http.Client, url string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "bearer pds_k")
	resp, err := c.Do(req)
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	return resp, err
}

func TestSpeaksBothVersionsInTheClear(t *testing.T) {
	addr, stop := serve(t, httpapi.Config{}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })
	for major := 1; major <= 2; major++ {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(major == 1)
		protocols.SetUnencryptedHTTP2(major == 2)
		transport := &http.Transport{Protocols: protocols}
		resp, err := get(t, &http.Client{Transport: transport}, "http://"+addr+"/")
		if err != nil || resp.StatusCode != 200 || resp.ProtoMajor != major {
			t.Errorf("HTTP/%d: %v, %v", major, resp, err)
		}
		transport.CloseIdleConnections()
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestHosts(t *testing.T) {
	addr, stop := serve(t, httpapi.Config{AllowHosts: []string{"Panda.example"}}, func(http.ResponseWriter, *http.Request) {})
	defer stop()
	_, port, _ := net.SplitHostPort(addr)
	for host, want := range map[string]int{
		addr: 200, "localhost": 200, "LOCALHOST:" + port: 200, "127.0.0.9": 200, "[::1]:80": 200, "panda.example:9": 200, "panda.example.": 200,
		"evil.example": 403, "localhost.evil.example": 403, "0.0.0.0": 403, "10.1.2.3": 403, "panda.example.evil": 403, "[fe80::1]": 403,
	} {
		req, _ := http.NewRequest("GET", "http://"+addr+"/v1/health", nil)
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("Host %q: %d, want %d", host, resp.StatusCode, want)
		}
	}
}

func TestStoppingWaitsForRequestsThenCancelsThem(t *testing.T) {
	entered, cancelled := make(chan struct{}), make(chan struct{})
	addr, stop := serve(t, httpapi.Config{Drain: 50 * time.Millisecond}, func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		close(cancelled)
	})
	client := make(chan error, 1)
	go func() {
		_, err := get(t, &http.Client{}, "http://"+addr+"/")
		client <- err
	}()
	<-entered
	if err := stop(); err != nil {
		t.Error(err)
	}
	<-cancelled
	<-client
}

func TestStoppingDoesNotWaitForASilentClient(t *testing.T) {
	addr, stop := serve(t, httpapi.Config{Drain: 50 * time.Millisecond}, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
	})
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer pds_k\r\nContent-Length: 9\r\n\r\nhalf")
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	select {
	case <-stopped:
	case <-time.After(20 * time.Second):
		t.Fatal("the server waits for ever")
	}
}

// TestBodyLeavesNoDeadline guards against a read deadline that is
// left behind: the server would take it for a client that has gone.
func TestBodyLeavesNoDeadline(t *testing.T) {
	var deadlines []time.Time
	handler := func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }
	server, err := httpapi.New(httpapi.Config{Keys: []string{"pds_k"}, Log: slog.New(slog.DiscardHandler)}, http.HandlerFunc(handler))
	if err != nil {
		t.Fatal(err)
	}
	req, _ := http.NewRequest("POST", "http://localhost/", strings.NewReader("body"))
	req.Header.Set("Authorization", "Bearer pds_k")
	server.ServeHTTP(&deadlineWriter{header: http.Header{}, set: func(d time.Time) { deadlines = append(deadlines, d) }}, req)
	if len(deadlines) < 2 || deadlines[0].IsZero() || !deadlines[len(deadlines)-1].IsZero() {
		t.Errorf("deadlines %v: want some, and none at the end", deadlines)
	}
}

type deadlineWriter struct {
	header http.Header
	set    func(time.Time)
}

func (w *deadlineWriter) Header() http.Header               { return w.header }
func (w *deadlineWriter) Write(p []byte) (int, error)       { return len(p), nil }
func (w *deadlineWriter) WriteHeader(int)                   {}
func (w *deadlineWriter) SetReadDeadline(d time.Time) error { w.set(d); return nil }

func TestPanicHalfWayCutsTheConnection(t *testing.T) {
	addr, stop := serve(t, httpapi.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "half")
		panic("as asked")
	})
	defer stop()
	if _, err := get(t, &http.Client{}, "http://"+addr+"/"); !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want a cut connection", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for name, cfg := range map[string]httpapi.Config{
		"keys: at least": {Log: log}, "keys: an API key": {Log: log, Keys: []string{" "}}, "log: ": {Keys: []string{"k"}},
	} {
		if _, err := httpapi.New(cfg, http.NotFoundHandler()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %q", err, name)
		}
	}
}
