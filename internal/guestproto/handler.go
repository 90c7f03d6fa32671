package guestproto

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// NewHandler serves g with the calls listed above.
func NewHandler(g Guest) http.Handler { return NewLaneHandler(g, nil) }

// NewLaneHandler is NewHandler for the guest itself: large files travel by the
// port that open opens.
func NewLaneHandler(g Guest, open func() (LanePipe, error)) http.Handler {
	h := &handler{g: g, lane: guestLane{open: open}}
	mux := http.NewServeMux()
	for pattern, f := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /hello":                    h.hello,
		"POST /resume":                  h.resume,
		"POST /quiesce":                 h.quiesce,
		"GET /stats":                    h.stats,
		"POST /warm":                    h.warm,
		"GET /kernels":                  h.kernels,
		"POST /kernels":                 h.createKernel,
		"DELETE /kernels/{id}":          h.deleteKernel,
		"POST /kernels/{id}/release":    h.releaseKernel,
		"POST /kernels/{id}/interrupt":  h.interruptKernel,
		"POST /kernels/{id}/execute":    h.execute,
		"GET /executions/{id}/events":   h.events,
		"POST /kernels/{id}/restart":    h.restartKernel,
		"POST /kernels/{id}/ask/{kind}": h.ask,
		"POST /kernels/{id}/start":      h.start,
		"POST /kernels/{id}/comms":      h.start,
		"GET /executions":               h.executions,
		"GET /executions/{id}":          h.execution,
		"POST /executions/{id}/cancel":  h.cancelExecution,
		"POST /executions/{id}/input":   h.input,
		"POST /exec":                    h.exec,
		"GET /file":                     h.readFile,
		"PUT /file":                     h.writeFile,
		"GET /dir":                      h.listDir,
		"GET /stat":                     h.stat,
	} {
		mux.HandleFunc(withPrefix(pattern), func(w http.ResponseWriter, r *http.Request) {
			if err := f(w, r); err != nil {
				writeError(w, err)
			}
		})
	}
	return mux
}

func withPrefix(pattern string) string {
	for i := range pattern {
		if pattern[i] == ' ' {
			return pattern[:i+1] + pathPrefix + pattern[i+1:]
		}
	}
	return pattern
}

type handler struct {
	g    Guest
	lane guestLane
}

func writeError(w http.ResponseWriter, err error) {
	e := asError(err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(Status(e.Code))
	_ = json.NewEncoder(w).Encode(e)
}

func reply[T any](w http.ResponseWriter, v T, err error) error {
	if err != nil {
		return err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b) // the caller is gone, nobody to tell
	return nil
}

func body[T any](r *http.Request) (v T, err error) {
	if err := readJSON(r.Body, MaxEvent, &v); err != nil {
		return v, Errorf(CodeInvalid, "request body: %v", err)
	}
	return v, nil
}

func (h *handler) hello(w http.ResponseWriter, r *http.Request) error {
	v, err := h.g.Hello(r.Context())
	return reply(w, v, err)
}

func (h *handler) resume(w http.ResponseWriter, r *http.Request) error {
	req, err := body[ResumeRequest](r)
	if err != nil {
		return err
	}
	v, err := h.g.Resume(r.Context(), req)
	return reply(w, v, err)
}

func (h *handler) quiesce(w http.ResponseWriter, r *http.Request) error {
	return h.g.Quiesce(r.Context())
}

func (h *handler) stats(w http.ResponseWriter, r *http.Request) error {
	v, err := h.g.Stats(r.Context())
	return reply(w, v, err)
}

func (h *handler) warm(_ http.ResponseWriter, r *http.Request) error {
	req, err := body[WarmRequest](r)
	if err != nil {
		return err
	}
	return h.g.Warm(r.Context(), req)
}

func (h *handler) kernels(w http.ResponseWriter, r *http.Request) error {
	v, err := h.g.Kernels(r.Context())
	return reply(w, v, err)
}

func (h *handler) createKernel(w http.ResponseWriter, r *http.Request) error {
	req, err := body[KernelRequest](r)
	if err != nil {
		return err
	}
	v, err := h.g.CreateKernel(r.Context(), req)
	return reply(w, v, err)
}

func (h *handler) deleteKernel(_ http.ResponseWriter, r *http.Request) error {
	return h.g.DeleteKernel(r.Context(), r.PathValue("id"))
}

func (h *handler) releaseKernel(_ http.ResponseWriter, r *http.Request) error {
	return h.g.ReleaseKernel(r.Context(), r.PathValue("id"))
}

func (h *handler) interruptKernel(_ http.ResponseWriter, r *http.Request) error {
	return h.g.InterruptKernel(r.Context(), r.PathValue("id"))
}

func (h *handler) execute(w http.ResponseWriter, r *http.Request) error {
	req, err := body[ExecuteRequest](r)
	if err != nil {
		return err
	}
	l := newLines(w)
	return l.finish(h.g.Execute(r.Context(), r.PathValue("id"), req, l.begin, l.event))
}

func (h *handler) events(w http.ResponseWriter, r *http.Request) error {
	after, err := strconv.ParseInt(r.FormValue("after"), 10, 64)
	if err != nil || after < 0 {
		return Errorf(CodeInvalid, "after: want a sequence number, got %q", r.FormValue("after"))
	}
	l := newLines(w)
	events := h.g.Events
	switch r.URL.Query().Get("follow") {
	case followNone:
		events = h.g.Replay
	case followAll:
		events, l.lasts = h.g.Listen, true
	}
	return l.finish(events(r.Context(), r.PathValue("id"), after, l.event))
}

func (h *handler) exec(w http.ResponseWriter, r *http.Request) error {
	req, err := body[ExecRequest](r)
	if err != nil {
		return err
	}
	l := newLines(w)
	l.raw = r.URL.Query().Get("raw") == "1"
	return l.finish(h.g.Exec(r.Context(), req, l.execEvent))
}

func (h *handler) readFile(w http.ResponseWriter, r *http.Request) error {
	info, f, err := h.g.ReadFile(r.Context(), r.FormValue("path"))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	head, err := json.Marshal(info)
	if err != nil {
		return err
	}
	w.Header().Set(infoHeader, url.QueryEscape(string(head)))
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := h.sendFile(w, r, f, info.Size); err != nil {
		panic(http.ErrAbortHandler) // the stream is reset: the reader sees a failure, not a short file
	}
	return nil
}

// sendFile sends size bytes of f by the lane, if the caller offers it, they are
// many and it is free; or else as the call's body.
func (h *handler) sendFile(w http.ResponseWriter, r *http.Request, f io.Reader, size int64) error {
	if name := r.FormValue("lane"); name != "" && size >= bulkSize {
		if t, err := h.lane.take(r.Context(), name); err == nil {
			defer t.leave()
			return t.sendBulk(w, f, size)
		}
	}
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	return copyFile(w, f, size)
}

func (h *handler) writeFile(w http.ResponseWriter, r *http.Request) error {
	mode, err := strconv.ParseUint("0"+r.URL.Query().Get("mode"), 8, 32)
	if err != nil || mode > 0o7777 {
		return Errorf(CodeInvalid, "mode: want octal permission bits, got %q", r.URL.Query().Get("mode"))
	}
	q := r.URL.Query()
	req := WriteRequest{Path: q.Get("path"), Mode: uint32(mode), NoSync: q.Get("nosync") == "1"}
	if !q.Has("lane") {
		v, err := h.g.WriteFile(r.Context(), req, r.Body)
		return reply(w, v, err)
	}
	t, err := h.lane.take(r.Context(), q.Get("lane"))
	if err != nil {
		return err
	}
	defer t.leave()
	v, err := h.g.WriteFile(r.Context(), req, &bulkUpload{guestTransfer: t})
	t.leave() // an answer says that the lane is free
	return reply(w, v, err)
}

func (h *handler) listDir(w http.ResponseWriter, r *http.Request) error {
	v, err := h.g.ListDir(r.Context(), r.FormValue("path"))
	return reply(w, v, err)
}

func (h *handler) stat(w http.ResponseWriter, r *http.Request) error {
	v, err := h.g.Stat(r.Context(), r.FormValue("path"))
	return reply(w, v, err)
}

// copyFile copies size bytes with few, large calls, which is what counts under
// emulation.
func copyFile(w io.Writer, f io.Reader, size int64) error {
	var n int64
	var err error
	if own, ok := f.(io.WriterTo); ok {
		n, err = own.WriteTo(w)
	} else {
		n, err = io.CopyBuffer(struct{ io.Writer }{w}, io.LimitReader(f, size), make([]byte, 256<<10))
	}
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// lines writes a stream of JSON lines. What is written leaves at the latest
// flushDelay later, so a cell's result and its end share one write.
type lines struct {
	mu    sync.Mutex
	w     http.ResponseWriter
	buf   []byte
	begun bool
	over  bool
	raw   bool        // a process's output follows its line
	lasts bool        // it does not end with EventDone
	timer *time.Timer // armed while something waits
}

func newLines(w http.ResponseWriter) *lines { return &lines{w: w} }

// begin sends the head at once. Both ends are done with it when the first line comes, and
// a cell's answer then is one write.
func (l *lines) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beginLocked()
	_ = http.NewResponseController(l.w).Flush() // a caller that is gone shows at the first line
}

func (l *lines) beginLocked() {
	if !l.begun {
		l.begun = true
		l.w.Header().Set("Content-Type", linesType)
	}
}

func (l *lines) event(e Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = appendEvent(l.buf[:0], e)
	return l.sendLocked(l.lasts || e.Type != EventDone)
}

func (l *lines) execEvent(e ExecEvent) error {
	var raw []byte
	if l.raw && len(e.Data) <= maxRaw {
		raw, e.Data = e.Data, nil
	}
	b, err := json.Marshal(execLine{ExecEvent: e, Raw: len(raw)})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(append(append(l.buf[:0], b...), '\n'), raw...)
	return l.sendLocked(e.Type != ExecExit)
}

func (l *lines) sendLocked(flush bool) error {
	l.beginLocked()
	if _, err := l.w.Write(l.buf); err != nil {
		return err
	}
	if cap(l.buf) > 64<<10 {
		l.buf = nil
	}
	if flush && l.timer == nil {
		l.timer = time.AfterFunc(flushDelay, l.flush)
	}
	return nil
}

func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = nil
	if !l.over {
		_ = http.NewResponseController(l.w).Flush()
	}
}

// finish ends the stream. An error that came before any line is returned, to
// travel under its status.
func (l *lines) finish(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.timer != nil {
		l.timer.Stop()
	}
	if err == nil || !l.begun {
		return err
	}
	b, err := json.Marshal(failedLine{asError(err)})
	if err == nil {
		_, _ = l.w.Write(append(b, '\n'))
	}
	return nil
}
