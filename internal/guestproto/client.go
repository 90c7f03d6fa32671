package guestproto

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"unicode/utf8"
)

// Client is a Guest at the other end of an HTTP transport. It believes nothing
// a guest says: answers are bounded, decoded into the types of this package and
// handed on re-encoded, and an answer that breaks the protocol fails its call.
type Client struct {
	rt    http.RoundTripper
	base  string
	calls chan struct{} // one for each call in flight
	lane  *lane         // nil where there is none
}

var _ Guest = (*Client)(nil)

// NewClient calls the guest that rt reaches under base, like http://guest.
func NewClient(rt http.RoundTripper, base string) *Client {
	return &Client{rt: rt, base: base + pathPrefix, calls: make(chan struct{}, maxCalls)}
}

// send makes one call. The answer is a success; its body is the caller's.
func (c *Client) send(ctx context.Context, method, path string, body io.Reader, length int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("guest %s: %w", path, err)
	}
	if length >= 0 {
		req.ContentLength = length
	}
	resp, err := c.roundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("guest %s %s: %w: %w", method, req.URL.Path, ErrBroken, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	return nil, refusal(resp)
}

// roundTrip keeps the calls in flight below maxCalls. A call ends with its body.
func (c *Client) roundTrip(req *http.Request) (*http.Response, error) {
	select {
	case c.calls <- struct{}{}:
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	resp, err := c.rt.RoundTrip(req)
	if err != nil {
		<-c.calls
		return nil, err
	}
	resp.Body = &callBody{ReadCloser: resp.Body, end: sync.OnceFunc(func() { <-c.calls })}
	return resp, nil
}

type callBody struct {
	io.ReadCloser
	end func()
}

func (b *callBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// maxMessage bounds a refusal's text.
const maxMessage = 4 << 10

// refusal reads an answer that is not a success.
func refusal(resp *http.Response) error {
	var e Error
	if err := readJSON(resp.Body, 8*maxMessage, &e); err != nil {
		if resp.StatusCode == http.StatusNotFound { // the mux of an agent that does not know the call
			return Errorf(CodeUnsupported, "the sandbox was made from a snapshot whose agent cannot do this yet")
		}
		return fmt.Errorf("guest answered %d without an error body", resp.StatusCode)
	}
	return checkError(e)
}

// checkError makes a guest's refusal fit to be shown.
func checkError(e Error) *Error {
	if _, known := codeStatus[e.Code]; !known {
		e.Code = CodeInternal
	}
	if len(e.Message) > maxMessage {
		e.Message = e.Message[:maxMessage]
	}
	e.Message = string(bytes.ToValidUTF8([]byte(e.Message), []byte("\uFFFD")))
	return &e
}

// call sends in as JSON, unless it is nil, and decodes the answer into out,
// unless that is nil.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	resp, err := c.sendJSON(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if out == nil {
		return nil
	}
	return c.decode(path, resp.Body, out)
}

func (c *Client) decode(path string, r io.Reader, out any) error {
	if err := readJSON(r, MaxJSON, out); err != nil {
		return fmt.Errorf("guest %s: bad answer: %w", path, err)
	}
	return nil
}

func (c *Client) sendJSON(ctx context.Context, method, path string, in any) (*http.Response, error) {
	if in == nil {
		return c.send(ctx, method, path, nil, -1)
	}
	b, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("guest %s: %w", path, err)
	}
	return c.send(ctx, method, path, bytes.NewReader(b), int64(len(b)))
}

// helloTries bounds the sessions that Hello begins.
const helloTries = 5

// Hello implements Guest. It begins another session where the agent ended one
// without an answer: net/http's server gives a connection up whose first frame it
// has not handled after 2 s, which cannot be set. A machine that was just restored
// may take longer on a busy host, since all that code is new to it.
func (c *Client) Hello(ctx context.Context) (h Hello, err error) {
	for range helloTries {
		err = c.call(ctx, "GET", "/hello", nil, &h)
		if !cutOff(err) || ctx.Err() != nil {
			break
		}
	}
	if err == nil && (h.Version < 1 || h.Version > Version) {
		err = fmt.Errorf("guest speaks protocol version %d, this host at most %d", h.Version, Version)
	}
	return h, err
}

// cutOff says whether a session came about and ended before the answer did.
func cutOff(err error) bool {
	return !errors.Is(err, errNoAnswer) && (errors.Is(err, ErrBroken) || errors.Is(err, io.ErrUnexpectedEOF))
}

// Resume implements Guest.
func (c *Client) Resume(ctx context.Context, req ResumeRequest) (r ResumeReport, err error) {
	err = c.call(ctx, "POST", "/resume", req, &r)
	return r, err
}

// Quiesce implements Guest.
func (c *Client) Quiesce(ctx context.Context) error {
	return c.call(ctx, "POST", "/quiesce", nil, nil)
}

// Stats implements Guest.
func (c *Client) Stats(ctx context.Context) (s Stats, err error) {
	err = c.call(ctx, "GET", "/stats", nil, &s)
	return s, err
}

// Warm implements Guest.
func (c *Client) Warm(ctx context.Context, req WarmRequest) error {
	return c.call(ctx, "POST", "/warm", req, nil)
}

// CreateKernel implements Guest.
func (c *Client) CreateKernel(ctx context.Context, req KernelRequest) (k Kernel, err error) {
	err = c.call(ctx, "POST", "/kernels", req, &k)
	return k, err
}

// Kernels implements Guest.
func (c *Client) Kernels(ctx context.Context) (ks []Kernel, err error) {
	err = c.call(ctx, "GET", "/kernels", nil, &ks)
	return ks, err
}

// InterruptKernel implements Guest.
func (c *Client) InterruptKernel(ctx context.Context, id string) error {
	return c.call(ctx, "POST", "/kernels/"+url.PathEscape(id)+"/interrupt", nil, nil)
}

// DeleteKernel implements Guest.
func (c *Client) DeleteKernel(ctx context.Context, id string) error {
	return c.call(ctx, "DELETE", "/kernels/"+url.PathEscape(id), nil, nil)
}

// ReleaseKernel implements Guest.
func (c *Client) ReleaseKernel(ctx context.Context, id string) error {
	return c.call(ctx, "POST", "/kernels/"+url.PathEscape(id)+"/release", nil, nil)
}

// Execute implements Guest.
func (c *Client) Execute(ctx context.Context, kernel string, req ExecuteRequest, accepted func(), sink func(Event) error) error {
	if req.Comm != nil {
		x, err := c.Start(ctx, kernel, req)
		if err != nil {
			return err
		}
		if accepted != nil {
			accepted()
		}
		return c.Events(ctx, x.ID, 0, sink)
	}
	resp, err := c.sendJSON(ctx, "POST", "/kernels/"+url.PathEscape(kernel)+"/execute", req)
	if err != nil {
		return err
	}
	if accepted != nil {
		accepted()
	}
	return followEvents(resp.Body, 0, sink)
}

// Events implements Guest.
func (c *Client) Events(ctx context.Context, execution string, after int64, sink func(Event) error) error {
	if after > 0 {
		return c.events(ctx, execution, "", after, sink) // there may be none left
	}
	resp, err := c.send(ctx, "GET", eventsPath(execution, "", 0), nil, -1)
	if err != nil {
		return err
	}
	return followEvents(resp.Body, 0, sink)
}

// Listen implements Guest.
func (c *Client) Listen(ctx context.Context, execution string, after int64, sink func(Event) error) error {
	return c.events(ctx, execution, followAll, after, sink)
}

// Replay implements Guest.
func (c *Client) Replay(ctx context.Context, execution string, after int64, sink func(Event) error) error {
	return c.events(ctx, execution, followNone, after, sink)
}

// How far a call follows an execution; "" is to its end.
const (
	followNone = "false"
	followAll  = "all"
)

func eventsPath(execution, follow string, after int64) string {
	q := url.Values{"after": {strconv.FormatInt(after, 10)}}
	if follow != "" {
		q.Set("follow", follow)
	}
	return "/executions/" + url.PathEscape(execution) + "/events?" + q.Encode()
}

// events hands on what comes until the agent ends the stream.
func (c *Client) events(ctx context.Context, execution, follow string, after int64, sink func(Event) error) error {
	resp, err := c.send(ctx, "GET", eventsPath(execution, follow, after), nil, -1)
	if err != nil {
		return err
	}
	return allEvents(resp.Body, after, sink)
}

// Exec implements Guest.
func (c *Client) Exec(ctx context.Context, req ExecRequest, sink func(ExecEvent) error) error {
	resp, err := c.sendJSON(ctx, "POST", "/exec?raw=1", req)
	if err != nil {
		return err
	}
	return followExec(resp.Body, sink)
}

func pathQuery(path string) string { return "?path=" + url.QueryEscape(path) }

// ReadFile implements Guest. The body fails unless it has exactly the size that
// the info says.
func (c *Client) ReadFile(ctx context.Context, path string) (info FileInfo, body io.ReadCloser, err error) {
	query := "/file" + pathQuery(path)
	t := c.lane.take()
	if t != nil {
		query += t.param()
	}
	resp, err := c.send(ctx, "GET", query, nil, -1)
	if t != nil && (err != nil || resp.Header.Get(laneHeader) == "") {
		t.release()
		t = nil
	}
	if err != nil {
		return info, nil, err
	}
	body = resp.Body
	if info, err = fileHeader(resp); err == nil && t == nil && resp.ContentLength != info.Size {
		err = fmt.Errorf("guest file: size %d, length %d", info.Size, resp.ContentLength)
	}
	if t != nil {
		body = getBulk(ctx, t, resp, info.Size)
	}
	if err != nil {
		_ = body.Close()
		return info, nil, err
	}
	return info, body, nil // net/http holds the body to its length
}

func fileHeader(resp *http.Response) (info FileInfo, err error) {
	head, err := url.QueryUnescape(resp.Header.Get(infoHeader))
	if err == nil {
		err = json.Unmarshal([]byte(head), &info)
	}
	if err != nil {
		return info, fmt.Errorf("guest file header: %w", err)
	}
	return info, checkFile(info)
}

// WriteFile implements Guest.
func (c *Client) WriteFile(ctx context.Context, req WriteRequest, body io.Reader) (info FileInfo, err error) {
	path := "/file" + pathQuery(req.Path) + "&mode=" + strconv.FormatUint(uint64(req.Mode), 8)
	if req.NoSync {
		path += "&nosync=1"
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, err := c.putFile(ctx, cancel, path, body)
	if err != nil {
		return info, err
	}
	defer func() { _ = resp.Body.Close() }()
	if err := c.decode("/file", resp.Body, &info); err != nil {
		return info, err
	}
	return info, checkFile(info)
}

// ListDir implements Guest.
func (c *Client) ListDir(ctx context.Context, path string) (infos []FileInfo, err error) {
	if err := c.call(ctx, "GET", "/dir"+pathQuery(path), nil, &infos); err != nil {
		return nil, err
	}
	for _, info := range infos {
		if err := checkFile(info); err != nil {
			return nil, err
		}
	}
	return infos, nil
}

// Stat implements Guest.
func (c *Client) Stat(ctx context.Context, path string) (info FileInfo, err error) {
	if err := c.call(ctx, "GET", "/stat"+pathQuery(path), nil, &info); err != nil {
		return info, err
	}
	return info, checkFile(info)
}

func checkFile(info FileInfo) error {
	if info.Size < 0 || len(info.Name) > MaxPath || len(info.Path) > 2*MaxPath || len(info.Link) > MaxPath || len(info.Mode) > 32 {
		return errors.New("guest file: impossible file info")
	}
	if !utf8.ValidString(info.Mode) {
		return errors.New("guest file: mode is no text")
	}
	return nil
}
