//go:build vm

package badinput

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"pandastack/api"
	"pandastack/test/harness"
)

const (
	idleConnections = 1000
	maxGrowth       = 64 << 20
	settle          = 90 * time.Second // more than the server's patience with a body
)

// dial opens a connection that the test ends, at the latest.
func (p *place) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", hostOf(p.URL), 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestIdleConnections: those who only connect cost little, and nobody else their answer.
func TestIdleConnections(t *testing.T) {
	p := newPlace(t)
	p.answers(t)
	before, fds := p.resident(t), p.Usage(t).FDs
	conns := make([]net.Conn, idleConnections)
	for i := range conns {
		conns[i] = p.dial(t)
		switch i % 3 { // the others say nothing at all
		case 1:
			p.raw(t, conns[i], "GET /v1/health HTTP/1.1", "Host: localhost", "X-Slow:")
		case 2:
			p.raw(t, conns[i], "GET /v1/health HTTP/1.1", "Host: localhost", "", "")
		}
	}
	p.answers(t)
	if got := p.Text(t, p.box, p.kernel, "6 * 7"); got != "42" {
		t.Errorf("got %s from a cell", got)
	}
	harness.Await(t, settle, "the connections to be taken", func() error {
		if n := p.Usage(t).FDs - fds; n < idleConnections/2 {
			return fmt.Errorf("%d are open", n)
		}
		return nil
	})
	grown := p.resident(t) - before
	t.Logf("%d connections: %+.1f MB resident", idleConnections, float64(grown)/1e6)
	if grown > maxGrowth {
		t.Errorf("%d bytes more are resident, want at most %d", grown, maxGrowth)
	}
	for _, c := range conns {
		_ = c.Close()
	}
	harness.Await(t, settle, "the connections to go", func() error {
		if n := p.Usage(t).FDs - fds; n > 8 {
			return fmt.Errorf("%d are left", n)
		}
		return nil
	})
	p.answers(t)
}

// resident gives the server's memory in bytes.
func (p *place) resident(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// TestHalfSentRequests: a request that stops coming is ended, and holds up nobody.
func TestHalfSentRequests(t *testing.T) {
	p := newPlace(t)
	t.Run("at once", func(t *testing.T) { // each takes the server's whole patience
		t.Run("header", func(t *testing.T) {
			t.Parallel()
			conn := p.dial(t)
			p.raw(t, conn, "POST /v1/sandboxes HTTP/1.1", "Host: localhost", p.auth(), "X-Half: ")
			p.answers(t)
			if status, body := read(t, conn); status != 0 && status != http.StatusRequestTimeout {
				t.Errorf("got %d %s, want the connection closed", status, body)
			}
		})
		t.Run("header drop by drop", func(t *testing.T) {
			t.Parallel()
			p.dropByDrop(t)
		})
		for name, request := range map[string][]string{
			"body": {"POST /v1/sandboxes HTTP/1.1", "Host: localhost", p.auth(), "Content-Length: 100", "", `{"template":"`},
			"file": {"PUT /v1/sandboxes/" + p.box + "/fs?path=half HTTP/1.1", "Host: localhost", p.auth(), "Content-Length: 100", "", "half"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				conn := p.dial(t)
				p.raw(t, conn, request...)
				p.answers(t)
				status, body := read(t, conn)
				assertRefusal(t, status, []byte(body), api.CodeRequestTimeout, api.CodeRequestInvalid)
			})
		}
	})
	p.noTrace(t, "")
}

// dropByDrop sends a header that goes on and on until the server has had enough.
func (p *place) dropByDrop(t *testing.T) {
	conn := p.dial(t)
	p.raw(t, conn, "GET /v1/health HTTP/1.1", "Host: localhost", "X-Drops: ")
	ended := make(chan struct{})
	go func() { defer close(ended); _, _ = io.Copy(io.Discard, conn) }()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(settle)
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
			_, _ = conn.Write([]byte("x")) // fails once the connection is closed
		case <-limit:
			t.Fatal("a header that never ends keeps its connection")
		}
	}
}

// TestClientsThatLeave: an upload that breaks off leaves the old file, and nothing beside it.
func TestClientsThatLeave(t *testing.T) {
	p := newPlace(t)
	in := "/v1/sandboxes/" + p.box + "/fs?path=kept"
	if status, body := p.Call(t, http.MethodPut, in, "old"); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	for name, framing := range map[string][]string{
		"with a length": {"Content-Length: 50000000", "", strings.Repeat("n", 3<<20)},
		"in chunks":     {"Transfer-Encoding: chunked", "", "100000", strings.Repeat("n", 1<<20), "100000", "nnn"},
		"bad chunks":    {"Transfer-Encoding: chunked", "", "3", "nnn", "not a length", "nnn"},
		"before a body": {"Content-Length: 5", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			conn := p.dial(t)
			p.raw(t, conn, append([]string{"PUT " + in + " HTTP/1.1", "Host: localhost", p.auth()}, framing...)...)
			_ = conn.Close()
			p.noTrace(t, "kept")
			if status, body := p.Call(t, http.MethodGet, in, ""); status != http.StatusOK || string(body) != "old" {
				t.Errorf("got %d %.40q, want the old file", status, body)
			}
		})
	}
	t.Run("in the middle of a request's JSON", func(t *testing.T) {
		conn := p.dial(t)
		p.raw(t, conn, "POST /v1/sandboxes HTTP/1.1", "Host: localhost", p.auth(), "Content-Length: 100", "", `{"temp`)
		_ = conn.Close()
		p.answers(t)
		p.onlyOurs(t)
	})
}

// noTrace waits until the folder holds nothing but the named file.
func (p *place) noTrace(t *testing.T, but string) {
	t.Helper()
	harness.Await(t, settle, "unfinished files to go", func() error {
		var dir api.Directory
		p.Get(t, "/v1/sandboxes/"+p.box+"/fs/dir?path=/workspace", &dir)
		for _, e := range dir.Entries {
			if e.Name != but {
				return fmt.Errorf("there is %s", e.Name)
			}
		}
		return nil
	})
}

// TestBrokenRequests: what is no HTTP gets a 400 or nothing, and the server goes on.
func TestBrokenRequests(t *testing.T) {
	p := newPlace(t)
	for name, lines := range map[string][]string{
		"noise":              {"\x00\xff\x16\x03\x01", "", ""},
		"no version":         {"GET /v1/health", "", ""},
		"no host":            {"GET /v1/health HTTP/1.1", "", ""},
		"two hosts":          {"GET /v1/health HTTP/1.1", "Host: localhost", "Host: evil.example", "", ""},
		"NUL in a header":    {"GET /v1/health HTTP/1.1", "Host: localhost", "X-A: a\x00b", "", ""},
		"space before colon": {"GET /v1/health HTTP/1.1", "Host: localhost", "Content-Length : 5", "", ""},
		"bad length":         {"POST /v1/sandboxes HTTP/1.1", "Host: localhost", p.auth(), "Content-Length: -1", "", ""},
		"two lengths":        {"POST /v1/sandboxes HTTP/1.1", "Host: localhost", p.auth(), "Content-Length: 2", "Content-Length: 3", "", "{}"},
		"unknown encoding":   {"POST /v1/sandboxes HTTP/1.1", "Host: localhost", p.auth(), "Transfer-Encoding: gzip", "", ""},
		"huge header":        {"GET /v1/health HTTP/1.1", "Host: localhost", "X-Big: " + strings.Repeat("b", 1<<20), "", ""},
		"huge target":        {"GET /" + strings.Repeat("a", 1<<20) + " HTTP/1.1", "Host: localhost", "", ""},
		"many headers":       {"GET /v1/health HTTP/1.1", "Host: localhost", strings.Repeat("X-A: b\r\n", 100_000), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			conn := p.dial(t)
			_, _ = io.WriteString(conn, strings.Join(lines, "\r\n")) // the server may close before all of it is there
			if status, body := read(t, conn); status != 0 && (status < 400 || status >= 500 && status != http.StatusNotImplemented && status != http.StatusHTTPVersionNotSupported) {
				t.Errorf("got %d %.200s", status, body)
			}
			p.answers(t)
		})
	}
}

// read gives a connection's answer; 0 is a connection that was closed without one.
func read(t *testing.T, conn net.Conn) (int, string) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(settle)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if e, ok := err.(net.Error); ok && e.Timeout() {
		t.Fatal("the server neither answers nor closes the connection")
	}
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body) // it may be cut off with the connection
	return resp.StatusCode, string(body)
}
