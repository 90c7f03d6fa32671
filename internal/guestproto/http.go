package guestproto

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// The calls, all below /v1:
//
//	GET    /hello                        Hello
//	POST   /resume                       ResumeRequest -> ResumeReport
//	POST   /quiesce
//	GET    /stats                        Stats
//	POST   /warm                         WarmRequest
//	GET    /kernels                      []Kernel
//	POST   /kernels                      KernelRequest -> Kernel
//	DELETE /kernels/{id}
//	POST   /kernels/{id}/release
//	POST   /kernels/{id}/interrupt
//	POST   /kernels/{id}/restart
//	POST   /kernels/{id}/ask/{kind}      content of a Jupyter request -> content of its reply
//	POST   /kernels/{id}/start           ExecuteRequest -> Execution
//	POST   /kernels/{id}/comms           the same, with Comm: an agent of before there was one does not know the call
//	POST   /kernels/{id}/execute         ExecuteRequest -> lines of Event
//	GET    /executions                   ?kernel= -> []Execution
//	GET    /executions/{id}              Execution
//	POST   /executions/{id}/cancel
//	POST   /executions/{id}/input        inputBody
//	GET    /executions/{id}/events       ?after=N -> lines of Event; &follow=false ends with what there is, &follow=all not with EventDone
//	POST   /exec                         ExecRequest -> lines of ExecEvent; with ?raw=1 data follows its line
//	GET    /file                         ?path=&lane= -> raw body; its FileInfo in a header
//	PUT    /file                         ?path=&mode=&nosync=&lane= raw body -> FileInfo
//	GET    /dir                          ?path= -> []FileInfo
//	GET    /stat                         ?path= -> FileInfo
//
// Bodies are JSON unless they say otherwise. A refusal is an Error under
// Status(code); where lines have been sent before, it is a last line
// {"failed": Error}.
const (
	pathPrefix = "/v1"
	infoHeader = "Pandastack-File"
	linesType  = "application/x-ndjson"
)

// Flow control and frames sized for a pipe where every turn is dear.
const (
	streamWindow = 4 << 20
	connWindow   = 16 << 20
	maxFrame     = 1<<20 - 1
	maxStreams   = 1000
	maxCalls     = maxStreams - 100 // net/http's client hangs when more wait than may run
)

func http2Config() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          maxStreams,
		StrictMaxConcurrentRequests:   true,
		MaxReceiveBufferPerConnection: connWindow,
		MaxReceiveBufferPerStream:     streamWindow,
		MaxReadFrameSize:              maxFrame,
	}
}

// Transport speaks HTTP/2 over connections that dial makes, one at a time; a
// connection that fails is replaced by the next call.
func Transport(dial func(context.Context) (net.Conn, error)) *http.Transport {
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		Protocols:   new(http.Protocols),
		HTTP2:       http2Config(),

		// A pipe has one session: a second dial would end the first.
		MaxConnsPerHost:    1,
		DisableCompression: true,
	}
	t.Protocols.SetUnencryptedHTTP2(true)
	return t
}

// NewServer answers with handler over unencrypted HTTP/2. The caller runs
// Serve on its listener and ends it with Close.
func NewServer(handler http.Handler) *http.Server {
	s := &http.Server{Handler: handler, Protocols: new(http.Protocols), HTTP2: http2Config()}
	s.Protocols.SetUnencryptedHTTP2(true)
	return s
}

// Serve answers on l until ctx ends or l fails.
func Serve(ctx context.Context, l net.Listener, handler http.Handler) error {
	s := NewServer(handler)
	s.BaseContext = func(net.Listener) context.Context { return ctx }
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	err := s.Serve(l)
	if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	_ = s.Close()
	return err
}

// failedLine is what streams carry besides events.
type failedLine struct {
	Failed *Error `json:"failed"`
}

// flushDelay is how long an event may wait for others to share a write with.
const flushDelay = time.Millisecond

// appendEvent writes e as a line. Content was checked by whoever made e to be
// JSON without line breaks.
func appendEvent(b []byte, e Event) []byte {
	b = fmt.Appendf(b, `{"seq":%d,"type":%q,"content":`, e.Seq, e.Type)
	if len(e.Content) == 0 {
		b = append(b, "null"...)
	}
	b = append(b, e.Content...)
	return append(b, '}', '\n')
}

func readJSON(r io.Reader, limit int64, v any) error {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return err
	}
	if int64(len(b)) > limit {
		return fmt.Errorf("more than %d bytes of JSON", limit)
	}
	return json.Unmarshal(b, v)
}
