package shim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"sync"
	"time"

	"pandastack/internal/guestproto"
	"pandastack/internal/kit/unixdir"
)

// Client is a running shim as its server sees it.
type Client struct {
	dir       string
	reap      func(context.Context) error
	transport *http.Transport
	guest     *guestproto.Client
	exited    <-chan struct{} // closed when the process was waited for; nil if it is not our child

	done    chan struct{}
	mu      sync.Mutex
	failure string
}

const base = "http://shim"

// newClient connects to the shim of a run folder. Its goroutine ends with the shim.
func newClient(dir string, reap func(context.Context) error, cmd *exec.Cmd) *Client {
	c := &Client{dir: dir, reap: reap, done: make(chan struct{})}
	c.transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return unixdir.Dial(ctx, dir, socketName)
		},
		MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, DisableCompression: true,
		WriteBufferSize: 256 << 10, ReadBufferSize: 256 << 10,
	}
	c.guest = guestproto.NewClient(c.transport, base+guestPrefix)
	if cmd != nil {
		exited := make(chan struct{})
		go func() { _ = cmd.Wait(); close(exited) }()
		c.exited = exited
	}
	return c
}

// Guest speaks to the agent through the shim.
func (c *Client) Guest() guestproto.Guest { return c.guest }

// Done is closed when the shim or its machine is gone.
func (c *Client) Done() <-chan struct{} { return c.done }

// Failure says why, once Done is closed.
func (c *Client) Failure() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// watch waits for the machine's end. A shim that breaks the connection has
// died itself, and what it left behind is ended here.
func (c *Client) watch() {
	var state State
	err := c.call(context.Background(), http.MethodGet, "/watch", nil, &state)
	c.mu.Lock()
	c.failure = state.Failure
	if err != nil {
		c.failure = "the shim process of the virtual machine ended unexpectedly"
	}
	c.mu.Unlock()
	if err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = c.reap(ctx)
	}
	close(c.done)
}

// State asks the shim what it knows.
func (c *Client) State(ctx context.Context) (s State, err error) {
	return s, c.call(ctx, http.MethodGet, "/state", nil, &s)
}

// quiet waits until nothing changes the machine.
func (c *Client) quiet(ctx context.Context) (s State, err error) {
	return s, c.call(ctx, http.MethodGet, "/quiet", nil, &s)
}

// ready waits until the start is over.
func (c *Client) ready(ctx context.Context) (s State, err error) {
	return s, c.call(ctx, http.MethodGet, "/ready", nil, &s)
}

// Stop halts the vCPUs.
func (c *Client) Stop(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/stop", nil, nil)
}

// Cont lets the vCPUs go on and resumes the agent.
func (c *Client) Cont(ctx context.Context, req guestproto.ResumeRequest) (r guestproto.ResumeReport, err error) {
	return r, c.call(ctx, http.MethodPost, "/cont", req, &r)
}

// Save writes memory and device state to new files.
func (c *Client) Save(ctx context.Context, memory, state string) (s State, err error) {
	return s, c.call(ctx, http.MethodPost, "/save", saveRequest{memory, state}, &s)
}

// Capture writes what the machine is into req.Dir.
func (c *Client) Capture(ctx context.Context, req CaptureRequest) (got Capture, err error) {
	return got, c.call(ctx, http.MethodPost, "/capture", req, &got)
}

// ChangedBytes counts the pages of the guest's memory that are its own.
func (c *Client) ChangedBytes(ctx context.Context) (n int64, err error) {
	return n, c.call(ctx, http.MethodGet, "/changed", nil, &n)
}

// Close ends the VMM and the shim and returns when both are gone.
func (c *Client) Close(ctx context.Context) error {
	err := c.call(ctx, http.MethodPost, "/close", nil, nil)
	c.transport.CloseIdleConnections()
	if err != nil { // it is dead or hangs: end what there is
		err = c.reap(ctx)
	} else {
		err = c.waitExit(ctx)
	}
	if err == nil {
		<-c.done
	}
	return err
}

// waitExit waits for the process to be gone: a child by its parent, a stranger by name.
func (c *Client) waitExit(ctx context.Context) error {
	if c.exited == nil {
		return c.reap(ctx)
	}
	select {
	case <-c.exited:
		return nil
	case <-time.After(5 * time.Second):
		return c.reap(ctx)
	case <-ctx.Done():
		return errors.Join(ctx.Err(), c.reap(context.WithoutCancel(ctx)))
	}
}

func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, body)
	if err != nil {
		return err
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("shim %s: %w", path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var f failure
		_ = json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&f)
		return fmt.Errorf("shim %s: %w", path, withFault(f.Error, f.Fault))
	}
	if out == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	return json.NewDecoder(resp.Body).Decode(out)
}
