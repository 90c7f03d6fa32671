package v1

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"pandastack/internal/httpapi"
)

const (
	// firstBeat is how long an answer waits for its first event. An error that
	// comes until then travels under its own status.
	firstBeat = time.Second
	heartbeat = 15 * time.Second
	silent    = ":\n\n" // a comment
)

// events writes server-sent events. Its methods may be called concurrently.
type events struct {
	w       http.ResponseWriter
	beat    *time.Timer // a comment where there is silence
	failure string      // the event that tells what went wrong

	mu    sync.Mutex
	begun bool
	over  bool
}

// newEvents begins nothing yet; finish must be called before the handler returns.
func newEvents(w http.ResponseWriter) *events {
	e := &events{w: w, failure: "error"}
	e.mu.Lock() // the timer's function needs the timer
	defer e.mu.Unlock()
	e.beat = time.AfterFunc(firstBeat, e.comment)
	return e
}

func (e *events) comment() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		_ = e.writeLocked(silent) // who has left is found out by the handler
	}
}

// send writes one event at once. Without a name it is a plain message.
func (e *events) send(name string, v any) error { return e.sendNumbered(0, name, v) }

// sendNumbered writes one event with its number, if it has one, as its id.
func (e *events) sendNumbered(id int64, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	frame := "data: " + ascii(data) + "\n\n"
	if name != "" {
		frame = "event: " + name + "\n" + frame
	}
	if id > 0 {
		frame = fmt.Sprintf("id: %d\n", id) + frame
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.writeLocked(frame)
}

func (e *events) writeLocked(frame string) error {
	if !e.begun {
		e.begun = true
		h := e.w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // asks a proxy to pass events on as they come
		e.w.WriteHeader(http.StatusOK)
	}
	if !e.over {
		e.beat.Reset(heartbeat)
	}
	if _, err := e.w.Write([]byte(frame)); err != nil {
		return err
	}
	return http.NewResponseController(e.w).Flush()
}

// finish ends an answer whose events came to their end with err. What failed
// before anything was sent is answered with the error's status.
func (e *events) finish(r *http.Request, err error) {
	e.mu.Lock()
	e.over = true
	e.beat.Stop()
	begun := e.begun
	if err == nil && !begun {
		_ = e.writeLocked(silent)
	}
	e.mu.Unlock()
	switch {
	case err == nil:
	case err != nil && !begun:
		httpapi.WriteError(e.w, r, err)
	case err != nil:
		_ = e.send(e.failure, httpapi.ProblemOf(r.Context(), err)) // who has left does not hear it
	}
}

// cut ends an answer in the middle, so that its client asks for the rest. It does
// not return.
func (e *events) cut() {
	e.mu.Lock()
	e.over = true
	e.beat.Stop()
	e.mu.Unlock()
	panic(http.ErrAbortHandler)
}

// ascii escapes what is not ASCII in JSON, because some clients end a line at
// U+0085 or U+2028, or read the text in another encoding.
func ascii(data []byte) string {
	var out strings.Builder
	out.Grow(len(data))
	for len(data) > 0 {
		if data[0] < utf8.RuneSelf {
			out.WriteByte(data[0])
			data = data[1:]
			continue
		}
		r, n := utf8.DecodeRune(data)
		data = data[n:]
		if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		} else {
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// decoder makes text of UTF-8 that comes in pieces: no character is cut in two,
// and what is none is U+FFFD.
type decoder struct{ rest []byte }

func (d *decoder) next(p []byte) string {
	b := append(d.rest, p...)
	whole := len(b)
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if start := len(b) - n; utf8.RuneStart(b[start]) {
			if !utf8.FullRune(b[start:]) {
				whole = start
			}
			break
		}
	}
	d.rest = append([]byte(nil), b[whole:]...)
	return strings.ToValidUTF8(string(b[:whole]), "\uFFFD")
}

// end gives what is left of a character that never came to its end.
func (d *decoder) end() string { return strings.ToValidUTF8(string(d.rest), "\uFFFD") }

func eventStream(description string) map[string]*huma.Response {
	return map[string]*huma.Response{"200": {Description: description, Content: map[string]*huma.MediaType{
		"text/event-stream": {}, // OpenAPI 3.1 has no schema for the events of a stream
	}}}
}
