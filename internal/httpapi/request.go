package httpapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"pandastack/api"
	"pandastack/internal/kit/logkey"
	"pandastack/internal/panda"
)

// record is what the log says of one request.
type record struct {
	http.ResponseWriter
	id     string
	status int
	bytes  int64

	mu    sync.Mutex
	route string // the pattern it matched
	attrs []slog.Attr
	err   error // why it was refused or failed
}

type recordKey struct{}

// Note keeps err for the request's line in the log.
func Note(ctx context.Context, err error) {
	rec, ok := ctx.Value(recordKey{}).(*record)
	if !ok {
		return
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.err = err
}

// Tag adds to the request's line in the log what the request is about. An empty
// value adds nothing.
func Tag(ctx context.Context, key, value string) {
	rec, ok := ctx.Value(recordKey{}).(*record)
	if !ok || value == "" {
		return
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.attrs = append(rec.attrs, slog.String(key, value))
}

// routed notes where a request went, which it knows once it was there.
func routed(r *http.Request) {
	rec, ok := r.Context().Value(recordKey{}).(*record)
	if !ok {
		return
	}
	rec.mu.Lock()
	rec.route = r.Pattern
	rec.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/v1/sandboxes/") {
		Tag(r.Context(), logkey.Sandbox, r.PathValue("id"))
	}
	Tag(r.Context(), logkey.Context, r.PathValue("context"))
	Tag(r.Context(), logkey.Execution, r.PathValue("execution"))
}

func (rec *record) WriteHeader(status int) {
	if rec.status == 0 && status >= 200 {
		rec.status = status
	}
	rec.ResponseWriter.WriteHeader(status)
}

func (rec *record) Write(p []byte) (int, error) {
	if rec.status == 0 {
		rec.status = http.StatusOK
	}
	n, err := rec.ResponseWriter.Write(p)
	rec.bytes += int64(n)
	return n, err
}

// send lets an answer go whose length is known, so that nobody waits for the log.
func (rec *record) send() {
	if rec.status != 0 && rec.Header().Get("Content-Length") != "" {
		_ = http.NewResponseController(rec.ResponseWriter).Flush() // who has left does not hear it
	}
}

// Unwrap lets http.ResponseController through.
func (rec *record) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// logged gives every request an id and one line in the log, and turns a panic
// into an answer.
func (s *Server) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &record{ResponseWriter: w, id: requestID(r)}
		w.Header().Set("X-Request-Id", rec.id)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		r = r.WithContext(context.WithValue(r.Context(), recordKey{}, rec))
		start := time.Now()
		defer func() {
			panicked := recover()
			begun := rec.status != 0
			if panicked != nil && panicked != http.ErrAbortHandler {
				answerPanic(rec, r, panicked)
			}
			rec.send()
			s.log(rec, r, time.Since(start))
			if panicked != nil && begun {
				panic(http.ErrAbortHandler) // cuts the half-sent answer off
			}
		}()
		next.ServeHTTP(rec, r)
	})
}

// answerPanic says "internal" where an answer can still be given.
func answerPanic(rec *record, r *http.Request, panicked any) {
	err := &panda.Error{
		Code:    api.CodeInternal,
		Message: "the server failed on this request",
		Cause:   fmt.Errorf("panic: %v\n%s", panicked, debug.Stack()),
	}
	if rec.status == 0 {
		WriteError(rec, r, err)
		return
	}
	Note(r.Context(), err)
}

// callerLeft counts requests whose caller did not wait for the answer. It is no
// status of HTTP's.
const callerLeft = 499

// outcome is a request's status as it counts: an error that nobody was there to
// hear is no fault of the server.
func outcome(ctx context.Context, status int) int {
	if ctx.Err() != nil && (status == 0 || status >= 500) {
		return callerLeft
	}
	return status
}

func (s *Server) log(rec *record, r *http.Request, took time.Duration) {
	rec.mu.Lock()
	err, route, about := rec.err, rec.route, rec.attrs
	rec.mu.Unlock()
	if s.cfg.Observer != nil {
		s.cfg.Observer.RequestDone(cmp.Or(route, "none"), outcome(r.Context(), rec.status), took)
	}
	level := slog.LevelInfo
	attrs := []slog.Attr{
		slog.String(logkey.Request, rec.id), slog.String(logkey.Method, r.Method), slog.String(logkey.Path, r.URL.Path),
		slog.Int(logkey.Status, rec.status), slog.Int64(logkey.Bytes, rec.bytes),
		slog.Float64(logkey.MS, float64(took.Microseconds())/1000),
	}
	attrs = append(attrs, about...)
	if err != nil {
		attrs = append(attrs, slog.String(logkey.Code, panda.CodeOf(err)), slog.String(logkey.Error, err.Error()))
		// A fault is the server's or its machine's. A caller that left, a timeout or
		// a full node is none.
		if fault := rec.status == 500 || rec.status == 502; fault && r.Context().Err() == nil {
			level = slog.LevelError
		}
	}
	s.cfg.Log.LogAttrs(r.Context(), level, "request", attrs...)
}

// requestID takes the caller's id when it is fit for a log, so that one id
// follows a call through several programs.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	fit := id != "" && len(id) <= 64 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == ""
	if fit {
		return id
	}
	return strings.ToLower(rand.Text()[:16])
}
