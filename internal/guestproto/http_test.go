package guestproto

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// serveOn answers every path with its own name over guest's record stream; with
// held it answers only once that is closed.
func serveOn(t *testing.T, guest net.Conn, held <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		_ = Serve(ctx, Accept(guest), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if held != nil {
				<-held
			}
			_, _ = io.WriteString(w, r.URL.Path)
		}))
	})
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
}

func get(ctx context.Context, rt http.RoundTripper, path string) error {
	req, err := http.NewRequestWithContext(ctx, "GET", "http://guest"+path, nil)
	if err != nil {
		return err
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err == nil && string(b) != path {
		err = fmt.Errorf("got %q, want %q", b, path)
	}
	return err
}

// A port has one session, so a second dial would end the first one's calls.
func TestConcurrentCallsShareOneSession(t *testing.T) {
	guest, host := socketpair(t)
	serveOn(t, guest, nil)
	port := NewPort(host)
	var dials atomic.Int32
	var last atomic.Pointer[net.Conn]
	rt := Transport(func(ctx context.Context) (net.Conn, error) {
		dials.Add(1)
		c, err := port.Dial(ctx)
		last.Store(&c)
		return c, err
	})
	defer rt.CloseIdleConnections()
	for round := range 20 {
		var calls sync.WaitGroup
		for i := range 50 {
			calls.Go(func() {
				if err := get(deadline(t), rt, fmt.Sprint("/", round, "/", i)); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		calls.Wait()
		if got := int(dials.Load()); got != round+1 {
			t.Fatalf("round %d: %d dials, want one for each session", round, got)
		}
		_ = (*last.Load()).Close()
		rt.CloseIdleConnections() // it may not have noticed yet
	}
}

// More calls than an HTTP/2 connection takes at once wait for their turn.
func TestMoreCallsThanStreamsWait(t *testing.T) {
	guest, host := socketpair(t)
	held := make(chan struct{})
	serveOn(t, guest, held)
	port := NewPort(host)
	var dials atomic.Int32
	rt := Transport(func(ctx context.Context) (net.Conn, error) {
		dials.Add(1)
		return port.Dial(ctx)
	})
	defer rt.CloseIdleConnections()
	client := NewClient(rt, "http://guest")
	var calls sync.WaitGroup
	for range 2 * maxStreams {
		calls.Go(func() {
			if err := client.call(deadline(t), "GET", "/", nil, nil); err != nil {
				t.Error(err)
			}
		})
	}
	close(held)
	calls.Wait()
	if dials.Load() != 1 {
		t.Fatalf("got %d dials, want 1", dials.Load())
	}
}

// slow is a guest whose one cell ends when it is told so.
type slow struct {
	Guest
	end chan struct{}
}

func (s slow) Execute(_ context.Context, _ string, _ ExecuteRequest, accepted func(), sink func(Event) error) error {
	accepted()
	<-s.end
	return sink(Event{Seq: 1, Type: EventDone, Content: []byte(`{"status":"ok"}`)})
}

// What is between agent and server has read an answer's head before the cell is done.
func TestAcceptedIsHeardBeforeTheFirstEvent(t *testing.T) {
	guest, host := socketpair(t)
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	end := make(chan struct{})
	done.Go(func() { _ = Serve(ctx, Accept(guest), NewHandler(slow{end: end})) })
	t.Cleanup(func() { cancel(); done.Wait() })
	rt := Transport(NewPort(host).Dial)
	defer rt.CloseIdleConnections()
	events := 0
	err := NewClient(rt, "http://guest").Execute(deadline(t), "k", ExecuteRequest{ID: "x"}, func() { close(end) }, func(Event) error {
		events++
		return nil
	})
	if err != nil || events != 1 {
		t.Fatalf("%d events, %v", events, err)
	}
}
