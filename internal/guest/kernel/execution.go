package kernel

import (
	"encoding/json"
	"time"

	"pandastack/internal/guest/cgroup"
	"pandastack/internal/guestproto"
)

// execution is one cell. Its log has its own lock; the rest is guarded by the
// kernel's.
type execution struct {
	req guestproto.ExecuteRequest
	k   *kernel
	log log

	msgID    string
	sent     bool // the kernel process was given it
	started  time.Time
	replied  bool // execute_reply came
	done     guestproto.Done
	timedOut bool
	timer    *time.Timer
}

type executeRequest struct {
	Code         string   `json:"code"`
	Silent       bool     `json:"silent"`
	StoreHistory bool     `json:"store_history"`
	Expressions  struct{} `json:"user_expressions"`
	AllowStdin   bool     `json:"allow_stdin"`
	StopOnError  bool     `json:"stop_on_error"`
	// Lean asks for nothing but what the cell shows and its reply: each message
	// costs an emulated CPU as much as a tenth of a small cell.
	Lean bool `json:"lean"`
}

func (x *execution) request() executeRequest {
	return executeRequest{Code: x.req.Code, Silent: x.req.Silent, StoreHistory: !x.req.Silent, StopOnError: true, Lean: true}
}

// takeLocked adds one of the kernel's messages and reports whether it was the last.
func (x *execution) takeLocked(m message) bool {
	switch t := m.Header.Type; t {
	case guestproto.EventStream, guestproto.EventDisplay, guestproto.EventUpdateDisplay,
		guestproto.EventResult, guestproto.EventError, guestproto.EventClearOutput:
		x.log.add(t, m.Content)
	case "comm_open", "comm_msg", "comm_close":
		x.log.add(guestproto.EventComm, commContent(t, m.Content))
	case "execute_reply":
		x.replyLocked(m)
	}
	return x.replied
}

// commContent puts the message's type in front of its content's fields.
func commContent(kind string, content json.RawMessage) json.RawMessage {
	b := append(make([]byte, 0, len(content)+32), `{"msg_type":"`+kind+`"`...)
	if rest := content[1:]; space(rest, 0) < len(rest) && rest[space(rest, 0)] != '}' {
		b = append(b, ',')
	}
	return append(b, content[1:]...)
}

func (x *execution) replyLocked(m message) {
	var c struct {
		Status string `json:"status"`
		Count  int    `json:"execution_count"`
	}
	if err := json.Unmarshal(m.Content, &c); err != nil || c.Status != "ok" {
		c.Status = guestproto.StatusError
	}
	x.replied = true
	x.done.Status, x.done.ExecutionCount = c.Status, c.Count
}

// finishLocked writes EventDone.
func (x *execution) finishLocked() {
	if x.timer != nil {
		x.timer.Stop()
	}
	if x.timedOut {
		x.done.Status = guestproto.StatusTimeout
	}
	if !x.started.IsZero() {
		x.done.DurationMS = float64(time.Since(x.started).Microseconds()) / 1000
	}
	x.log.finish(x.done)
}

// deathLocked notes how the process ended. The out-of-memory killer sends SIGKILL;
// what it counts may also be a child that the kernel outlived.
func (x *execution) deathLocked(e exit, memory cgroup.Memory) {
	x.done.ExitCode, x.done.Signal = e.Code, e.Signal
	if e.Signal == "SIGKILL" && memory.Killed > 0 {
		x.done.OutOfMemory = true
		x.done.MemoryPeak, x.done.MemoryLimit = memory.Peak, memory.Limit
	}
}

// abortLocked ends an execution that never started.
func (x *execution) abortLocked() {
	x.done = guestproto.Done{Status: guestproto.StatusAborted}
	x.finishLocked()
}

// failure adds an error of the kernel's host, not of the cell.
func (x *execution) failure(err error) {
	b, _ := json.Marshal(guestproto.CellError{Name: "KernelHostError", Value: err.Error(), Traceback: []string{}})
	x.log.add(guestproto.EventError, b)
}
