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
	req      guestproto.ExecuteRequest // without its code or comm message, once it has ended
	preview  string
	comm     string // whose message it is; "" for a cell
	sum      uint64 // of the code or message
	size     int    // of that
	k        *kernel
	log      log
	queuedAt time.Time

	msgID    string
	sent     bool // the kernel process was given it
	waited   bool // behind another cell
	started  time.Time
	raised   bool // it has shown an error
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
	in := input(req)
	x := &execution{
		req: req, k: k, preview: preview(req.Code), sum: maphash.Bytes(seed, in), size: len(in),
		log: log{limit: m.cfg.LogLimit, dir: m.cfg.SpillDir}, queuedAt: time.Now(),
	}
	if req.Comm != nil {
		x.comm = req.Comm.CommID
	}
	return x
}

// input is what a kernel is given.
func input(req guestproto.ExecuteRequest) []byte {
	if req.Comm == nil {
		return []byte(req.Code)
	}
	b, _ := json.Marshal(req.Comm) // it was read from JSON
	return b
}

func preview(code string) string {
	return strings.Clone(strings.ToValidUTF8(code[:min(len(code), guestproto.MaxPreview)], ""))
}

// same says whether a call with x's id means x.
func (x *execution) same(req guestproto.ExecuteRequest) bool {
	in := input(req)
	return (x.comm != "") == (req.Comm != nil) && x.size == len(in) && x.sum == maphash.Bytes(seed, in)
}

// describe tells of x. Its kernel's lock must not be held.
func (x *execution) describe() guestproto.Execution {
	k := x.k
	k.mu.Lock()
	defer k.mu.Unlock()
	d := guestproto.Execution{
		ID: x.req.ID, Kernel: k.id, Status: x.done.Status, Code: x.preview, CommID: x.comm, Batch: x.req.Batch,
		TimeoutMS: x.req.TimeoutMS, ExecutionCount: x.done.ExecutionCount, Events: x.log.newest(), QueuedAt: x.queuedAt, StartedAt: x.started, EndedAt: x.ended,
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

// request is the message that begins it.
func (x *execution) request() message {
	if x.comm != "" {
		return commMessage(x.req.Comm)
	}
	b, _ := json.Marshal(executeRequest{
		Code: x.req.Code, Silent: x.req.Silent, StoreHistory: !x.req.Silent, AllowStdin: x.req.AllowStdin, Lean: true,
	})
	return message{Header: header{Type: "execute_request"}, Content: b}
}

// takeLocked adds one of the kernel's messages and reports whether it was the last.
func (x *execution) takeLocked(p *process, m message) bool {
	switch m.Header.Type {
	case guestproto.EventInput:
		x.askLocked(p, m.Content)
	case "execute_reply":
		x.replyLocked(m)
	case "status":
		x.statusLocked(m)
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
		x.raised = x.raised || t == guestproto.EventError
		x.log.add(t, m.Content)
	case guestproto.CommOpen, guestproto.CommMsg, guestproto.CommClose:
		x.log.add(guestproto.EventComm, commContent(m))
	}
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
	x.asks, x.req.Code, x.req.Comm = nil, "", nil
	x.log.finish(x.done)
	if !x.sent {
		x.log.close() // no process knows of it
	}
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
