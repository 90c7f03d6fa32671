package guestproto

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

var (
	errLine = errors.New("guest stream: line too long")
	errEnd  = fmt.Errorf("%w: it ended before its last event", ErrBroken)
)

// ErrBroken marks errors that are not the guest's refusal and not the caller's
// doing: the stream broke, as it does when the machine ends.
var ErrBroken = errors.New("the stream to the guest broke")

// eachLine calls f with each line of at most MaxEvent bytes until f says that
// it was the last. It closes body.
func eachLine(body io.ReadCloser, f func(line []byte) (last bool, err error)) error {
	defer func() { _ = body.Close() }()
	return linesOf(bufio.NewReaderSize(body, 32<<10), f)
}

// linesOf is eachLine for a reader from which f may take what follows a line.
func linesOf(r *bufio.Reader, f func(line []byte) (last bool, err error)) error {
	var long []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(long)+len(part) > MaxEvent {
			return errLine
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, part...)
			continue
		}
		if errors.Is(err, io.EOF) {
			return errEnd
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrBroken, err)
		}
		if long != nil {
			part = append(long, part...)
		}
		if last, err := f(part); last || err != nil {
			return err
		}
		long = nil
	}
}

// followEvents hands a stream of events to sink, whose first one is after+1 and
// whose last one EventDone.
func followEvents(body io.ReadCloser, after int64, sink func(Event) error) error {
	return eachEvent(body, after, func(e Event) (bool, error) { return e.Type == EventDone, sink(e) })
}

// allEvents hands a stream of events to sink that ends where it ends.
func allEvents(body io.ReadCloser, after int64, sink func(Event) error) error {
	err := eachEvent(body, after, func(e Event) (bool, error) { return false, sink(e) })
	if errors.Is(err, errEnd) {
		return nil
	}
	return err
}

func eachEvent(body io.ReadCloser, after int64, sink func(Event) (last bool, err error)) error {
	return eachLine(body, func(line []byte) (bool, error) {
		e, err := decodeEvent(line, after)
		if err != nil {
			return false, err
		}
		after = e.Seq
		return sink(e)
	})
}

// decodeEvent reads one line of a stream whose last sequence number was after.
// The event it returns holds nothing of the line but what its type says, and
// its content is JSON without line breaks.
func decodeEvent(line []byte, after int64) (Event, error) {
	var e struct {
		Event
		Failed *Error `json:"failed"`
	}
	if !utf8.Valid(line) {
		return Event{}, errors.New("guest event: not UTF-8")
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return Event{}, fmt.Errorf("guest event: %w", err)
	}
	if e.Failed != nil {
		return Event{}, checkError(*e.Failed)
	}
	if e.Seq != after+1 && (e.Type != EventDropped || e.Seq <= after) {
		return Event{}, fmt.Errorf("guest event: %d follows %d", e.Seq, after)
	}
	content, err := recode(e.Type, e.Content, after)
	if err != nil {
		return Event{}, fmt.Errorf("guest event %d: %w", e.Seq, err)
	}
	return Event{Seq: e.Seq, Type: e.Type, Content: content}, nil
}

// recode passes content through the Go type of its event.
func recode(event string, content []byte, after int64) (json.RawMessage, error) {
	switch event {
	case EventStream:
		return through(content, func(s *Stream) bool { return s.Name == "stdout" || s.Name == "stderr" })
	case EventDisplay, EventUpdateDisplay, EventResult:
		return through(content, func(d *Display) bool { return d.Data != nil })
	case EventError:
		return through[CellError](content, nil)
	case EventClearOutput:
		return through[ClearOutput](content, nil)
	case EventComm:
		return through(content, func(c *Comm) bool {
			return c.MsgType == "comm_open" || c.MsgType == "comm_msg" || c.MsgType == "comm_close"
		})
	case EventInput:
		return through[InputRequest](content, nil)
	case EventStarted:
		return through[struct{}](content, nil)
	case EventDropped:
		return through(content, func(d *Dropped) bool {
			return d.First == after+1 && d.Bytes >= 0 && d.Stdout.possible() && d.Stderr.possible()
		})
	case EventDone:
		return through(content, knownDone)
	}
	return nil, fmt.Errorf("unknown type %.40q", event)
}

func knownDone(d *Done) bool {
	switch d.Status {
	case StatusOK, StatusError, StatusTimeout, StatusDied, StatusAborted:
		return d.Dropped >= 0 && d.DurationMS >= 0 && len(d.Signal) < 32 && d.MemoryPeak >= 0 && d.MemoryLimit >= 0 &&
			d.TimeoutMS >= 0 && len(d.Reason) < 32 && len(d.Kernel) <= maxID
	}
	return false
}

func through[T any](content []byte, ok func(*T) bool) (json.RawMessage, error) {
	var v T
	if len(content) == 0 {
		return nil, errors.New("no content")
	}
	if err := json.Unmarshal(content, &v); err != nil {
		return nil, err
	}
	if ok != nil && !ok(&v) {
		return nil, errors.New("content does not fit its type")
	}
	return encode(v)
}

// encode is json.Marshal without its escapes for HTML, which would make the
// HTML that most results are much longer.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	if b.Len() > MaxEvent {
		return nil, errLine
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// followExec hands a stream of process events to sink.
func followExec(body io.ReadCloser, sink func(ExecEvent) error) error {
	defer func() { _ = body.Close() }()
	r := bufio.NewReaderSize(body, maxRaw+4<<10)
	return linesOf(r, func(line []byte) (bool, error) {
		e, raw, err := decodeExec(line)
		if err != nil {
			return false, err
		}
		if raw > 0 {
			e.Data = make([]byte, raw)
			if _, err := io.ReadFull(r, e.Data); err != nil {
				return false, fmt.Errorf("%w: %w", ErrBroken, err)
			}
		}
		return e.Type == ExecExit, sink(e)
	})
}

// execLine is an event of a process as it travels. With raw its data follows the line as it
// is: base64 in JSON would cost an emulated guest most of its time.
type execLine struct {
	ExecEvent
	Raw    int    `json:"raw,omitempty"`
	Failed *Error `json:"failed,omitempty"`
}

// maxRaw bounds the data of one event.
const maxRaw = 64 << 10

// decodeExec reads one line, and how many bytes of data follow it.
func decodeExec(line []byte) (e ExecEvent, raw int, err error) {
	var l execLine
	if err := json.Unmarshal(line, &l); err != nil {
		return e, 0, fmt.Errorf("guest process event: %w", err)
	}
	if l.Failed != nil {
		return e, 0, checkError(*l.Failed)
	}
	switch {
	case (l.Type == ExecStdout || l.Type == ExecStderr) && l.Raw >= 0 && l.Raw <= maxRaw:
		return ExecEvent{Type: l.Type, Data: l.Data}, l.Raw, nil
	case l.Type == ExecExit && len(l.Signal) < 32 && l.DurationMS >= 0 && l.Raw == 0:
		return l.ExecEvent, 0, nil
	}
	return e, 0, fmt.Errorf("guest process event: bad event of type %.40q", l.Type)
}
