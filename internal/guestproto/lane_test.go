package guestproto

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// shelf is a guest that has nothing but files.
type shelf struct {
	Guest // nil: nothing else is asked for

	mu     sync.Mutex
	files  map[string][]byte
	broken chan error // of uploads that did not come to their end
}

func (s *shelf) WriteFile(_ context.Context, req WriteRequest, body io.Reader) (FileInfo, error) {
	if req.Path == "refused" {
		return FileInfo{}, Errorf(CodePathEscape, "no")
	}
	limit := int64(1 << 40)
	if req.Path == "full" {
		limit = 3 * bulkSize
	}
	b, err := io.ReadAll(io.LimitReader(body, limit))
	if err == nil && int64(len(b)) == limit {
		err = Errorf(CodeNoSpace, "full")
	}
	if err != nil {
		s.broken <- err
		return FileInfo{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[req.Path] = b
	return FileInfo{Name: req.Path, Size: int64(len(b))}, nil
}

func (s *shelf) ReadFile(_ context.Context, path string) (FileInfo, io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.files[path]
	if !ok {
		return FileInfo{}, nil, Errorf(CodeNotFound, "no")
	}
	info := FileInfo{Name: path, Size: int64(len(b))}
	if path == "shrunk" {
		b = b[:len(b)-1]
	}
	return info, io.NopCloser(struct{ io.Reader }{bytes.NewReader(b)}), nil
}

func (s *shelf) has(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.files[path]
	return ok
}

// ports is a machine: a guest, and hosts that can be replaced.
type ports struct {
	*shelf
	agent, lane *pump
	opened      atomic.Int32 // how often the guest took the lane
	busy        atomic.Bool  // another process of the guest has the port
}

func newPorts(t *testing.T) *ports {
	m := &ports{shelf: &shelf{files: map[string][]byte{}, broken: make(chan error, 10)}}
	var agent, lane net.Conn
	agent, m.agent = newPump(t)
	lane, m.lane = newPump(t)
	open := func() (LanePipe, error) {
		if m.busy.Load() {
			return nil, errors.New("busy")
		}
		m.opened.Add(1)
		f, err := lane.(*net.UnixConn).File()
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		return net.FileConn(f)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { _ = Serve(ctx, Accept(agent), NewLaneHandler(m, open)) })
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
	return m
}

// host connects a new host, which the last one does not survive.
func (m *ports) host(t *testing.T) *Client {
	t.Helper()
	lane := m.lane.connect(t, -1)
	rt := Transport(NewPort(m.agent.connect(t, -1)).Dial)
	t.Cleanup(rt.CloseIdleConnections)
	c := NewClient(rt, "http://guest")
	c.UseLane(lane)
	return c
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return b
}

// passes moves data both ways and wants the guest to open the lane lanes times
// for that.
func (m *ports) passes(t *testing.T, c *Client, name string, data []byte, lanes int32) {
	t.Helper()
	before := m.opened.Load()
	info, err := c.WriteFile(deadline(t), WriteRequest{Path: name}, bytes.NewReader(data))
	if err != nil || info.Size != int64(len(data)) {
		t.Fatalf("%s: wrote %+v, %v", name, info, err)
	}
	info, body, err := c.ReadFile(deadline(t), name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	got, err := io.ReadAll(body)
	if err != nil || !bytes.Equal(got, data) || info.Size != int64(len(data)) {
		t.Fatalf("%s: got %d bytes of %d, %v", name, len(got), len(data), err)
	}
	if err := body.Close(); err != nil {
		t.Fatal(err)
	}
	if n := m.opened.Load() - before; n != lanes {
		t.Fatalf("%s: the lane was used %d times, want %d", name, n, lanes)
	}
}

func TestLargeFilesTravelByTheLane(t *testing.T) {
	m := newPorts(t)
	c := m.host(t)
	for _, n := range []int{0, 1, bulkSize - 1} {
		m.passes(t, c, fmt.Sprint(n), random(n), 0)
	}
	for _, n := range []int{bulkSize, bulkSize + 1, 2*bulkSize - 1, 2 * bulkSize, 2*bulkSize + 1, maxLaneRecord, 3<<20 + 12345} {
		m.passes(t, c, fmt.Sprint(n), random(n), 2)
	}
}

// gate is a body that waits for the test in its middle.
type gate struct {
	first, rest io.Reader
	open        chan struct{}
}

func (g *gate) Read(p []byte) (int, error) {
	if n, err := g.first.Read(p); !errors.Is(err, io.EOF) {
		return n, err
	}
	<-g.open
	return g.rest.Read(p)
}

func TestOthersPassAStalledTransfer(t *testing.T) {
	m := newPorts(t)
	c := m.host(t)
	data := random(5 << 20)
	slow := &gate{bytes.NewReader(data[:1<<20]), bytes.NewReader(data[1<<20:]), make(chan struct{})}
	stalled := make(chan error, 1)
	go func() {
		_, err := c.WriteFile(deadline(t), WriteRequest{Path: "slow"}, slow)
		stalled <- err
	}()
	wait(t, func() bool { return m.opened.Load() == 1 })
	t.Run("others", func(t *testing.T) { // which returns when all five are over
		for n := range 5 {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				m.passes(t, c, fmt.Sprint(n), random(2<<20+n), 0)
			})
		}
	})
	close(slow.open)
	if err := <-stalled; err != nil || !bytes.Equal(m.files["slow"], data) {
		t.Fatalf("the stalled one: %v, %d bytes", err, len(m.files["slow"]))
	}
	m.passes(t, c, "next", data, 2)
}

func wait(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.After(20 * time.Second); !ok(); {
		select {
		case <-time.After(time.Millisecond):
		case <-end:
			t.Fatal("never happened")
		}
	}
}

// settled is a pass that tolerates what is left of a transfer that was broken
// off: until both ends have left the lane, the stream is used.
func (m *ports) settled(t *testing.T, c *Client) {
	t.Helper()
	data := random(1<<20 + 7)
	wait(t, func() bool {
		before := m.opened.Load()
		if _, err := c.WriteFile(deadline(t), WriteRequest{Path: "settled"}, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		return m.opened.Load() == before+1
	})
	m.passes(t, c, "settled", data, 2)
}

func TestUploadsThatBreakOffLeaveNothing(t *testing.T) {
	m := newPorts(t)
	c := m.host(t)
	lost := errors.New("the client is gone")
	for _, n := range []int{bulkSize - 1, bulkSize, 2*bulkSize + 1, 3 << 20} {
		body := io.MultiReader(bytes.NewReader(random(n)), failing{lost})
		if _, err := c.WriteFile(deadline(t), WriteRequest{Path: "lost"}, body); !errors.Is(err, lost) {
			t.Fatalf("%d bytes: got %v, want %v", n, err, lost)
		}
		if n >= bulkSize { // of the others the guest was not told
			<-m.broken
		}
	}
	ctx, cancel := context.WithCancel(deadline(t))
	stuck := &gate{bytes.NewReader(random(1 << 20)), bytes.NewReader(nil), make(chan struct{})}
	defer close(stuck.open)
	taken := m.opened.Load()
	go func() {
		wait(t, func() bool { return m.opened.Load() > taken })
		cancel()
	}()
	if _, err := c.WriteFile(ctx, WriteRequest{Path: "lost"}, stuck); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	<-m.broken
	if m.has("lost") {
		t.Fatal("a part became a file")
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestRefusedUploads(t *testing.T) {
	m := newPorts(t)
	c := m.host(t)
	for _, test := range []struct{ path, code string }{{"refused", CodePathEscape}, {"full", CodeNoSpace}} {
		_, err := c.WriteFile(deadline(t), WriteRequest{Path: test.path}, bytes.NewReader(random(9<<20)))
		var refusal *Error
		if !errors.As(err, &refusal) || refusal.Code != test.code {
			t.Fatalf("%s: got %v", test.path, err)
		}
		m.settled(t, c)
	}
}

func TestDownloadsThatBreakOff(t *testing.T) {
	m := newPorts(t)
	c := m.host(t)
	m.files["file"], m.files["shrunk"] = random(9<<20), random(2<<20)
	for _, n := range []int64{0, 1, 1 << 20} {
		_, body, err := c.ReadFile(deadline(t), "file")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, body, n); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(body.Close(), body.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := body.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Fatalf("a closed body: %v", err)
		}
		m.settled(t, c)
	}
	_, body, err := c.ReadFile(deadline(t), "shrunk")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = io.Copy(io.Discard, body); !errors.Is(err, ErrBroken) {
		t.Fatalf("a file that is shorter than it said: %v", err)
	}
	_ = body.Close()
	m.settled(t, c)
	ctx, cancel := context.WithCancel(deadline(t))
	if _, body, err = c.ReadFile(ctx, "file"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err = io.Copy(io.Discard, body); err == nil {
		t.Fatal("a body outlived its context")
	}
	_ = body.Close()
	m.settled(t, c)
}

// A guest is saved while files move, and goes on with another host, which has
// other bytes for it.
func TestTransfersEndWithTheirHost(t *testing.T) {
	m := newPorts(t)
	first := m.host(t)
	m.files["file"] = random(20 << 20)
	for _, up := range []bool{true, false} {
		taken := m.opened.Load()
		stuck := &gate{bytes.NewReader(random(1 << 20)), bytes.NewReader(random(10)), make(chan struct{})}
		over := make(chan struct{})
		go func() {
			defer close(over)
			if up {
				_, _ = first.WriteFile(deadline(t), WriteRequest{Path: "half"}, stuck)
			} else if _, body, err := first.ReadFile(deadline(t), "file"); err == nil {
				<-stuck.open
				_ = body.Close()
			}
		}()
		wait(t, func() bool { return m.opened.Load() > taken })
		second := m.host(t)
		m.settled(t, second)
		close(stuck.open)
		<-over
		if m.has("half") {
			t.Fatal("a part became a file")
		}
		first = m.host(t)
	}
}

func TestAGuestWhosePortIsTakenUsesTheStream(t *testing.T) {
	m := newPorts(t)
	m.busy.Store(true)
	m.passes(t, m.host(t), "file", random(3<<20), 0)
}

// A guest that lies about the lane gets its calls an error, in bounded memory.
func TestHostileGuestsOnTheLane(t *testing.T) {
	record := func(n nonce, size int) []byte { return (&laneWriter{nonce: n}).head(nil, size) }
	begin := func(n nonce) []byte { return greeting(ackMark, n) }
	for name, send := range map[string]func(w io.Writer, n nonce){
		"bad tag":  func(w io.Writer, n nonce) { _, _ = w.Write(append(begin(n), record(nonce{7}, 10)...)) },
		"too long": func(w io.Writer, n nonce) { _, _ = w.Write(append(begin(n), record(n, maxLaneRecord+1)...)) },
		"too many": func(w io.Writer, n nonce) {
			_, _ = w.Write(append(append(begin(n), record(n, 2000)...), make([]byte, 2000)...))
		},
		"too few": func(w io.Writer, n nonce) { _, _ = w.Write(append(begin(n), record(n, 0)...)) },
		"no beginning": func(w io.Writer, _ nonce) {
			for err := error(nil); err == nil; {
				_, err = w.Write(make([]byte, 1<<20))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			agent, host := socketpair(t)
			lane, mine := socketpair(t)
			ctx, cancel := context.WithCancel(context.Background())
			var done sync.WaitGroup
			defer done.Wait()
			defer func() { _ = lane.Close() }()
			defer cancel()
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n, _ := parseNonce(r.FormValue("lane"))
				w.Header().Set(infoHeader, `{"size":1000}`)
				w.Header().Set(laneHeader, "1")
				_ = http.NewResponseController(w).Flush()
				send(lane, n)
				<-r.Context().Done()
			})
			done.Go(func() { _ = Serve(ctx, Accept(agent), handler) })
			rt := Transport(NewPort(host).Dial)
			defer rt.CloseIdleConnections()
			c := NewClient(rt, "http://guest")
			c.UseLane(mine)
			_, body, err := c.ReadFile(deadline(t), "file")
			if err != nil {
				t.Fatal(err)
			}
			n, err := io.Copy(io.Discard, body)
			if !errors.Is(err, ErrBroken) || n > 2000 {
				t.Fatalf("got %d bytes, %v", n, err)
			}
			_ = body.Close()
		})
	}
}

func FuzzLane(f *testing.F) {
	n := nonce{1, 2, 3, 4}
	var good bytes.Buffer
	good.WriteString("stale")
	w := laneWriter{&good, n}
	_ = w.start(ackMark)
	_, _ = w.Write([]byte("payload"))
	_ = w.end()
	f.Add(good.Bytes())
	f.Add(good.Bytes()[:good.Len()-1])
	f.Add(append(greeting(ackMark, nonce{9}), good.Bytes()...))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newLaneReader(bytes.NewReader(b), n)
		if r.start(ackMark) != nil {
			return
		}
		got, err := io.ReadAll(r)
		end := (&laneWriter{nonce: n}).head(nil, 0)
		if len(got) > len(b) || (err == nil && !bytes.Contains(b, end)) {
			t.Fatalf("%d bytes came out of %d, %v", len(got), len(b), err)
		}
	})
}
