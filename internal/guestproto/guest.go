// Package guestproto is the protocol between the host and the agent inside a
// microVM: the record stream both ends speak over one byte pipe, and the HTTP
// calls that run inside it. It is versioned and additive, because an old
// snapshot carries an old agent.
//
// Guest is the whole of what the agent offers. The agent implements it; the
// shim's Client speaks it over the record stream and serves it again, decoded
// and checked, to the server with the same Handler. So bytes written by a
// guest end in the shim.
package guestproto

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"time"
)

// Version is the protocol's version. A host accepts every agent whose version
// is at most its own.
const Version = 2

// Limits that both ends hold. The host enforces them on whatever a guest sends.
const (
	MaxRecord = 32 << 10 // payload bytes of one record
	MaxEvent  = 24 << 20 // bytes of one JSON event line
	MaxJSON   = 4 << 20  // bytes of any other JSON answer
	MaxPath   = 4096
)

// Guest is what an agent does for its host. Every method may be called
// concurrently. Errors are *Error where the guest refused, anything else is the
// transport's.
type Guest interface {
	// Hello says who the agent is. It has no effect.
	Hello(ctx context.Context) (Hello, error)
	// Resume must be called after every cont (design §4.5) before anything
	// else. A failed step fails the call; the VM is then to be discarded.
	Resume(ctx context.Context, req ResumeRequest) (ResumeReport, error)
	// Quiesce syncs the disks and drops the page cache, for a snapshot.
	Quiesce(ctx context.Context) error
	// Stats reports what the guest uses.
	Stats(ctx context.Context) (Stats, error)

	// Warm readies the Python kernel host for a snapshot: it imports, runs the
	// cells, and leaves one spare kernel that the next CreateKernel claims. A
	// second call warms further and keeps the spare it has.
	Warm(ctx context.Context, req WarmRequest) error

	// CreateKernel starts a kernel (or claims the warm one) and returns when it
	// answers. A second call with the same ID is refused with CodeExists.
	CreateKernel(ctx context.Context, req KernelRequest) (Kernel, error)
	Kernels(ctx context.Context) ([]Kernel, error)
	// InterruptKernel sends SIGINT to the kernel's running cell.
	InterruptKernel(ctx context.Context, id string) error
	// RestartKernel ends the kernel's process, aborts the cells that wait, and returns when a fresh
	// process answers.
	RestartKernel(ctx context.Context, id string) error
	// DeleteKernel ends the kernel and its processes and returns when they are gone.
	DeleteKernel(ctx context.Context, id string) error
	// ReleaseKernel makes a kernel that has only rehearsed wait again, as if nobody had claimed it. One
	// that cannot is refused with CodeConflict and stays.
	ReleaseKernel(ctx context.Context, id string) error
	// Ask puts a question to an idle kernel: content is that of the Jupyter request of this kind, the
	// answer that of its reply. A kernel that runs a cell is refused with CodeBusy.
	Ask(ctx context.Context, kernel, kind string, content json.RawMessage) (json.RawMessage, error)

	// Start puts a cell into its kernel's queue and returns at once. Cells of a kernel run one after
	// another, whoever listens. A second call with the same ID, kernel and code attaches to the first
	// one's cell; with another code it is refused with CodeExists.
	Start(ctx context.Context, kernel string, req ExecuteRequest) (Execution, error)
	// Executions lists the cells that wait, run, or ended lately, oldest first; of all kernels for "".
	Executions(ctx context.Context, kernel string) ([]Execution, error)
	// Execution describes one cell.
	Execution(ctx context.Context, id string) (Execution, error)
	// CancelExecution takes a waiting cell out of its queue and interrupts a running one. One that
	// has ended is left alone.
	CancelExecution(ctx context.Context, id string) error
	// Input answers a running cell's EventInput; CodeConflict where none is open.
	Input(ctx context.Context, execution, text string) error

	// Execute is Start and Events in one call: it calls accepted, if there is such, once the cell is
	// queued, and returns after EventDone was delivered. Losing the caller does not end the cell.
	Execute(ctx context.Context, kernel string, req ExecuteRequest, accepted func(), sink func(Event) error) error
	// Events replays an execution's events with Seq > after, then follows it to its end. What the
	// cell's threads and processes print later comes after EventDone; Events does not wait for it.
	Events(ctx context.Context, execution string, after int64, sink func(Event) error) error
	// Listen is Events that goes on with what comes after EventDone. It returns when nothing can come
	// any more: the kernel's process ended, or the execution is not kept any longer.
	Listen(ctx context.Context, execution string, after int64, sink func(Event) error) error
	// Replay is Events without the following: it returns with what there is.
	Replay(ctx context.Context, execution string, after int64, sink func(Event) error) error

	// Exec runs a fresh process and calls sink with its output as it comes and
	// last with ExecExit. The process group dies when ctx is cancelled.
	Exec(ctx context.Context, req ExecRequest, sink func(ExecEvent) error) error

	// ReadFile opens a regular file. The caller closes the body.
	ReadFile(ctx context.Context, path string) (FileInfo, io.ReadCloser, error)
	// WriteFile replaces a file as a whole: the old content stays until all of
	// the new one is written (and fsynced, unless req.NoSync), then renames.
	// Missing parent folders are made.
	WriteFile(ctx context.Context, req WriteRequest, body io.Reader) (FileInfo, error)
	ListDir(ctx context.Context, path string) ([]FileInfo, error)
	Stat(ctx context.Context, path string) (FileInfo, error)
}

// Hello is the agent's introduction.
type Hello struct {
	Version int    `json:"version"`
	Agent   string `json:"agent"` // build version
	BootID  string `json:"boot_id"`
	// WarmKernel is true when a warmed kernel waits to be claimed.
	WarmKernel bool `json:"warm_kernel"`
	// Lane is true when large files may travel by the second port. An agent of
	// before there was a lane does not say so.
	Lane bool `json:"lane,omitempty"`
}

// ResumeRequest carries what a guest cannot know after it stood still.
type ResumeRequest struct {
	WallClockNS int64 `json:"wall_clock_ns"` // Unix time, nanoseconds
	// Reseed is set where the state may exist twice: template start, fork,
	// restored snapshot. Seed is 32 or more fresh random bytes.
	Reseed   bool   `json:"reseed"`
	Seed     []byte `json:"seed,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	// MachineID, 32 hex digits, is set where another machine begins: Stats count from there.
	MachineID string `json:"machine_id,omitempty"`
	// Clock is ClockSlew or ClockStep where nothing but the clock is to be set.
	Clock string `json:"clock,omitempty"`
}

// How a clock is set to WallClockNS when that is all there is to do.
const (
	ClockSlew = "slew" // bit by bit where it is off by little: the machine runs
	ClockStep = "step" // at once: it has just gone on
)

// ResumeReport says what was done and how long each step took.
type ResumeReport struct {
	Steps []Step `json:"steps"`
}

// Milliseconds is what all steps took, to the microsecond.
func (r ResumeReport) Milliseconds() (sum float64) {
	for _, step := range r.Steps {
		sum += step.MS
	}
	return math.Round(sum*1000) / 1000
}

// Step is one named, timed step.
type Step struct {
	Name  string  `json:"name"`
	MS    float64 `json:"ms"`
	Error string  `json:"error,omitempty"` // of one whose failure is not everything's
}

// Stats is the guest's own view of its resources, in bytes and seconds.
type Stats struct {
	MemTotal     int64   `json:"mem_total"`
	MemAvailable int64   `json:"mem_available"`
	DiskTotal    int64   `json:"disk_total"`
	DiskFree     int64   `json:"disk_free"`
	CPUSeconds   float64 `json:"cpu_seconds"` // user + system since the machine began
	Uptime       float64 `json:"uptime"`      // since the same moment
	Processes    int     `json:"processes"`
}

// WarmRequest says what every kernel of a template has done before it is used.
type WarmRequest struct {
	Imports []string `json:"imports,omitempty"`
	Cells   []string `json:"cells,omitempty"`
}

// KernelRequest asks for a kernel. Kind is the name of a kernelspec, or "" for the
// Language's own; both "" are Python. An empty Cwd is /workspace.
type KernelRequest struct {
	ID       string            `json:"id"`
	Name     string            `json:"name,omitempty"` // a label, for people
	Language string            `json:"language"`
	Kind     string            `json:"kind,omitempty"`
	Cwd      string            `json:"cwd,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
}

// Kernel states.
const (
	KernelIdle = "idle"
	KernelBusy = "busy"
	KernelDead = "dead"
)

// Kernel is one live kernel.
type Kernel struct {
	ID             string    `json:"id"`
	Name           string    `json:"name,omitempty"`
	Language       string    `json:"language"`
	Kind           string    `json:"kind,omitempty"` // its kernelspec's name, if it has one
	Cwd            string    `json:"cwd"`
	State          string    `json:"state"`
	PID            int       `json:"pid"`
	ExecutionCount int       `json:"execution_count"`
	CreatedAt      time.Time `json:"created_at"`
	Restarts       int       `json:"restarts"`
	Waiting        int       `json:"waiting,omitempty"` // cells behind the running one
}

// ExecuteRequest is one cell. ID names the execution for Events; a call with
// the ID of an execution that exists attaches to it and runs nothing.
type ExecuteRequest struct {
	ID     string `json:"id"`
	Code   string `json:"code"`
	Silent bool   `json:"silent,omitempty"` // no history, no count, no results
	// TimeoutMS 0 means no limit. At the limit the cell gets SIGINT; GraceMS
	// (default 3000) later the kernel is killed and started afresh.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	GraceMS   int64 `json:"grace_ms,omitempty"`
	// AllowStdin lets the cell ask for input; without it input() fails at once.
	AllowStdin bool `json:"allow_stdin,omitempty"`
	// StopOnError: if this cell fails, those that wait with the same Batch are aborted.
	StopOnError bool   `json:"stop_on_error,omitempty"`
	Batch       string `json:"batch,omitempty"`
	// Forget: nothing of the cell can be asked for once Execute has given its events.
	Forget bool `json:"forget,omitempty"`
	// Comm, in place of code, is a message to a comm of the kernel. It is done when its callbacks are.
	Comm *Comm `json:"comm,omitempty"`
}

// States of an execution that has not ended; afterwards its status is Done's.
const (
	StatusQueued  = "queued"
	StatusRunning = "running"
)

// Execution describes one cell without its output.
type Execution struct {
	ID        string `json:"id"`
	Kernel    string `json:"kernel"`
	Status    string `json:"status"`
	Position  int    `json:"position,omitempty"` // in the queue, from 1
	Code      string `json:"code"`               // its beginning, at most MaxPreview bytes
	CommID    string `json:"comm_id,omitempty"`  // whose message it is, instead of code
	Batch     string `json:"batch,omitempty"`
	TimeoutMS int64  `json:"timeout_ms,omitempty"`
	// ExecutionCount is 0 until it has ended.
	ExecutionCount int `json:"execution_count,omitempty"`

	Events    int64     `json:"events"` // the newest one's number
	QueuedAt  time.Time `json:"queued_at"`
	StartedAt time.Time `json:"started_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	// Input is the question that waits for an answer.
	Input *InputRequest `json:"input,omitempty"`
}

// MaxPreview bounds Execution.Code.
const MaxPreview = 1 << 10

// Event types. Those with a Jupyter name are its iopub message types and carry
// that message's content.
const (
	EventStream        = "stream"
	EventDisplay       = "display_data"
	EventUpdateDisplay = "update_display_data"
	EventResult        = "execute_result"
	EventError         = "error"
	EventClearOutput   = "clear_output"
	EventComm          = "comm"
	EventInput         = "input_request"
	EventStarted       = "started" // a cell that had waited begins; content {}
	EventDropped       = "dropped" // content Dropped
	EventDone          = "done"
)

// Event is one entry of an execution's log. Content is a Jupyter message's
// content, or a Done.
type Event struct {
	Seq     int64           `json:"seq"` // from 1, without gaps but for EventDropped
	Type    string          `json:"type"`
	Content json.RawMessage `json:"content"`
}

// Dropped is the content of EventDropped, which stands for the events First to
// its own Seq: the log's limit did not keep them. Bytes counts their contents, the
// rest what the streams had in them.
type Dropped struct {
	First  int64 `json:"first"`
	Bytes  int64 `json:"bytes"`
	Stdout Size  `json:"stdout,omitzero"`
	Stderr Size  `json:"stderr,omitzero"`
}

// Size of a text.
type Size struct {
	Bytes int64 `json:"bytes"`
	Lines int64 `json:"lines"` // line breaks
}

// InputRequest is the content of EventInput.
type InputRequest struct {
	Prompt   string `json:"prompt"`
	Password bool   `json:"password"`
}

// Jupyter's comm messages.
const (
	CommOpen  = "comm_open"
	CommMsg   = "comm_msg"
	CommClose = "comm_close"
)

// Comm is the content of EventComm, and what a client sends: one of Jupyter's comm messages.
type Comm struct {
	MsgType      string                     `json:"msg_type"` // one of those above
	CommID       string                     `json:"comm_id"`
	TargetName   string                     `json:"target_name,omitempty"`
	TargetModule string                     `json:"target_module,omitempty"`
	Data         json.RawMessage            `json:"data,omitempty"`
	Metadata     map[string]json.RawMessage `json:"metadata,omitempty"`
	Buffers      []string                   `json:"buffers,omitempty"` // base64
}

// ClearOutput is the content of EventClearOutput.
type ClearOutput struct {
	Wait bool `json:"wait"`
}

// Stream is the content of EventStream.
type Stream struct {
	Name string `json:"name"` // stdout or stderr
	Text string `json:"text"`
}

// Display is the content of EventDisplay, EventUpdateDisplay and EventResult.
type Display struct {
	Data           map[string]json.RawMessage `json:"data"`
	Metadata       map[string]json.RawMessage `json:"metadata,omitempty"`
	Transient      map[string]json.RawMessage `json:"transient,omitempty"`
	ExecutionCount int                        `json:"execution_count,omitempty"`
}

// CellError is the content of EventError.
type CellError struct {
	Name      string   `json:"ename"`
	Value     string   `json:"evalue"`
	Traceback []string `json:"traceback"` // lines, with ANSI colours
}

// Execution outcomes.
const (
	StatusOK      = "ok"
	StatusError   = "error"   // the cell raised
	StatusTimeout = "timeout" // it was interrupted or killed at its limit
	StatusDied    = "died"    // its kernel ended under it
	StatusAborted = "aborted" // never started: the kernel went away first
)

// Done ends an execution.
type Done struct {
	Status         string  `json:"status"`
	ExecutionCount int     `json:"execution_count"`
	DurationMS     float64 `json:"duration_ms"`
	// Restarted says that the kernel's state was lost: under this cell, with died and timeout, or
	// before it. The first cell in a fresh kernel says so too: its caller may be another one.
	Restarted bool `json:"restarted,omitempty"`
	// ExitCode and Signal say how a kernel that died ended.
	ExitCode int    `json:"exit_code,omitempty"`
	Signal   string `json:"signal,omitempty"`
	// OutOfMemory says that a kernel that died was killed because memory had run out.
	// MemoryPeak is the most it and its processes used, MemoryLimit what all kernels and processes may; in bytes.
	OutOfMemory bool  `json:"out_of_memory,omitempty"`
	MemoryPeak  int64 `json:"memory_peak,omitempty"`
	MemoryLimit int64 `json:"memory_limit,omitempty"`
	// Dropped counts bytes of events that the log's limit did not keep.
	Dropped int64 `json:"dropped,omitempty"`
	// Reason says why a cell was aborted, or its kernel ended: one of those below, or "".
	Reason    string `json:"reason,omitempty"`
	Kernel    string `json:"kernel,omitempty"`
	TimeoutMS int64  `json:"timeout_ms,omitempty"`
}

// Reasons of a Done.
const (
	ReasonCancelled = "cancelled"
	ReasonRestarted = "restarted" // the kernel was, on request
	ReasonDeleted   = "deleted"   // the kernel was
	ReasonDied      = "died"      // its kernel did, under a cell before it
	ReasonBatch     = "batch"     // a cell of the same batch failed
)

// Kinds of questions to a kernel.
const (
	AskComplete   = "complete"
	AskInspect    = "inspect"
	AskIsComplete = "is_complete"
	AskHistory    = "history"
)

// CompleteReply answers AskComplete. Positions count characters.
type CompleteReply struct {
	Matches     []string                   `json:"matches"`
	CursorStart int                        `json:"cursor_start"`
	CursorEnd   int                        `json:"cursor_end"`
	Metadata    map[string]json.RawMessage `json:"metadata,omitempty"`
}

// InspectReply answers AskInspect.
type InspectReply struct {
	Found bool                       `json:"found"`
	Data  map[string]json.RawMessage `json:"data"`
}

// IsCompleteReply answers AskIsComplete.
type IsCompleteReply struct {
	Status string `json:"status"` // complete, incomplete, invalid or unknown
	Indent string `json:"indent,omitempty"`
}

// HistoryReply answers AskHistory: session, line number, and input or [input, output].
type HistoryReply struct {
	History [][3]json.RawMessage `json:"history"`
}

// ExecRequest runs one process. Exactly one of Shell (a line for /bin/sh -c)
// and Argv is set. An empty Cwd is /workspace.
type ExecRequest struct {
	Shell     string            `json:"shell,omitempty"`
	Argv      []string          `json:"argv,omitempty"`
	Cwd       string            `json:"cwd,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Stdin     []byte            `json:"stdin,omitempty"`
	TimeoutMS int64             `json:"timeout_ms,omitempty"`
}

// ExecEvent types.
const (
	ExecStdout = "stdout"
	ExecStderr = "stderr"
	ExecExit   = "exit"
)

// ExecEvent is output of a process, or its end.
type ExecEvent struct {
	Type string `json:"type"`
	Data []byte `json:"data,omitempty"`
	// The rest is set on ExecExit. ExitCode is -1 when a signal ended it.
	ExitCode   int     `json:"exit_code"`
	Signal     string  `json:"signal,omitempty"`
	TimedOut   bool    `json:"timed_out,omitempty"`
	DurationMS float64 `json:"duration_ms,omitempty"`
}

// WriteRequest says where a file goes. Paths: absolute ones mean the whole
// guest; relative ones resolve under /workspace and may not leave it.
type WriteRequest struct {
	Path   string
	Mode   uint32 // permission bits; 0 keeps the old file's, or 0644
	NoSync bool
}

// FileInfo describes one file.
type FileInfo struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	IsDir bool   `json:"is_dir"`
	Size  int64  `json:"size"`
	Mode  string `json:"mode"`  // as ls prints it: -rw-r--r--
	MTime int64  `json:"mtime"` // Unix seconds
	Link  string `json:"link,omitempty"`
}
