package kernel

import (
	"encoding/json"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"pandastack/internal/guest/cgroup"
	"pandastack/internal/guestproto"
)

// execution is one cell. Its log has its own lock; the rest is guarded by the
// kernel's.
type execution struct {
	req      guestproto.ExecuteRequest // without its code, once that was sent
	preview  string
	sum      uint64 // of the code
	size     int    // of the code
	k        *kernel
	log      log
	queuedAt time.Time

	msgID    string
	sent     bool // the kernel process was given it
	waited   bool // behind another cell
	started  time.Time
	replied  bool // execute_reply came
	done     guestproto.Done
	ended    time.Time
	timedOut bool
	timer    *time.Timer
	again    *time.Timer // to a second interrupt
	asks     *question
}

// question is what a cell asked its user and waits for.
type question struct {
	guestproto.InputRequest
	p *process
}

var seed = maphash.MakeSeed()

func (m *Manager) newCell(k *kernel, req guestproto.ExecuteRequest) *execution {
	return &execution{
		req: req, k: k, preview: preview(req.Code), sum: maphash.String(seed, req.Code), size: len(req.Code),
		log: log{limit: m.cfg.LogLimit, dir: m.cfg.SpillDir}, queuedAt: time.Now(),
	}
}

func preview(code string) string {
	return strings.Clone(strings.ToValidUTF8(code[:min(len(code), guestproto.MaxPreview)], ""))
}

// same says whether a call with x's id means x.
func (x *execution) same(req guestproto.ExecuteRequest) bool {
	return x.size == len(req.Code) && x.sum == maphash.String(seed, req.Code)
}

// describe tells of x. Its kernel's lock must not be held.
func (x *execution) describe() guestproto.Execution {
	k := x.k
	k.mu.Lock()
	defer k.mu.Unlock()
	d := guestproto.Execution{
		ID: x.req.ID, Kernel: k.id, Status: x.done.Status, Code: x.preview, Batch: x.req.Batch,
		TimeoutMS: x.req.TimeoutMS, Events: x.log.newest(), QueuedAt: x.queuedAt, StartedAt: x.started, EndedAt: x.ended,
	}
	switch {
	case !x.ended.IsZero():
	case k.running == x:
		d.Status = guestproto.StatusRunning
	default:
		d.Status, d.Position = guestproto.StatusQueued, slices.Index(k.queue, x)+1
	}
	if x.asks != nil {
		d.Input = &x.asks.InputRequest
	}
	return d
}

type executeRequest struct {
	Code         string   `json:"code"`
	Silent       bool     `json:"silent"`
	StoreHistory bool     `json:"store_history"`
	Expressions  struct{} `json:"user_expressions"`
	AllowStdin   bool     `json:"allow_stdin"`
	StopOnError  bool     `json:"stop_on_error"` // false: the queue is here
	// Lean asks for nothing but what the cell shows and its reply: each message
	// costs an emulated CPU as much as a tenth of a small cell.
	Lean bool `json:"lean"`
}

func (x *execution) request() executeRequest {
	return executeRequest{Code: x.req.Code, Silent: x.req.Silent, StoreHistory: !x.req.Silent, AllowStdin: x.req.AllowStdin, Lean: true}
}

// takeLocked adds one of the kernel's messages and reports whether it was the last.
func (x *execution) takeLocked(p *process, m message) bool {
	switch m.Header.Type {
	case guestproto.EventInput:
		x.askLocked(p, m.Content)
	case "execute_reply":
		x.replyLocked(m)
	default:
		x.showLocked(m)
	}
	return x.replied
}

// showLocked adds what a notebook would show.
func (x *execution) showLocked(m message) {
	switch t := m.Header.Type; t {
	case guestproto.EventStream, guestproto.EventDisplay, guestproto.EventUpdateDisplay,
		guestproto.EventResult, guestproto.EventError, guestproto.EventClearOutput:
		x.log.add(t, m.Content)
	case "comm_open", "comm_msg", "comm_close":
		x.log.add(guestproto.EventComm, commContent(m))
	}
}

// commContent puts the message's type, metadata and buffers in front of its
// content's fields.
func commContent(m message) json.RawMessage {
	b := append(make([]byte, 0, len(m.Content)+len(m.more)+32), `{"msg_type":"`+m.Header.Type+`"`...)
	for _, c := range m.more {
		if c != '\n' { // a line break between tokens: there are none in strings
			b = append(b, c)
		}
	}
	if rest := m.Content[1:]; space(rest, 0) < len(rest) && rest[space(rest, 0)] != '}' {
		b = append(b, ',')
	}
	return append(b, m.Content[1:]...)
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
	for _, t := range []*time.Timer{x.timer, x.again} {
		if t != nil {
			t.Stop()
		}
	}
	if x.timedOut {
		x.done.Status = guestproto.StatusTimeout
	}
	if x.ended = time.Now(); !x.started.IsZero() {
		x.done.DurationMS = float64(x.ended.Sub(x.started).Microseconds()) / 1000
	}
	x.done.Kernel, x.done.TimeoutMS = x.k.id, x.req.TimeoutMS
	x.asks, x.req.Code = nil, ""
	x.log.finish(x.done)
}

// askLocked notes that the cell waits for its user.
func (x *execution) askLocked(p *process, content json.RawMessage) {
	q := &question{p: p}
	if err := json.Unmarshal(content, &q.InputRequest); err != nil {
		return // the kernel host's fault; the cell can be interrupted
	}
	x.asks = q
	x.log.add(guestproto.EventInput, content)
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
func (x *execution) abortLocked(reason string) {
	x.done = guestproto.Done{Status: guestproto.StatusAborted, Reason: reason}
	x.finishLocked()
}

// failure adds an error of the kernel's host, not of the cell.
func (x *execution) failure(err error) {
	b, _ := json.Marshal(guestproto.CellError{Name: "KernelHostError", Value: err.Error(), Traceback: []string{}})
	x.log.add(guestproto.EventError, b)
}
