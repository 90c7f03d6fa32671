package api

import (
	"encoding/json"
	"time"
)

// Execute asks for one cell to be run.
type Execute struct {
	Code           string  `json:"code"`
	TimeoutSeconds float64 `json:"timeout_seconds,omitempty" minimum:"0" maximum:"31536000" doc:"0 means no limit; at the limit the cell is interrupted"`
	ID             string  `json:"id,omitempty" pattern:"^[A-Za-z0-9_-]{1,64}$" doc:"idempotency key: a second call with the same id attaches to the first one's execution. The header Idempotency-Key is the same"`
	Detached       bool    `json:"detached,omitempty" doc:"answer at once (202) with an ExecutionInfo"`
	AllowStdin     bool    `json:"allow_stdin,omitempty" doc:"input() sends an event input_request and waits for the answer; otherwise it raises at once"`
	StopOnError    bool    `json:"stop_on_error,omitempty" doc:"if this cell fails, those that wait in its context with the same batch are aborted"`
	Batch          string  `json:"batch,omitempty" maxLength:"64" doc:"any name; none is a batch too"`
	// Output bounds what the answer holds of the output.
	Output *OutputBudget `json:"output,omitempty"`

	// Comm stands in place of code. It has a call of its own.
	Comm *Comm `json:"-"`
}

// SendComm asks for a message to be sent to a comm of a context, which is done as a cell is run.
type SendComm struct {
	Comm           Comm          `json:"comm"`
	TimeoutSeconds float64       `json:"timeout_seconds,omitempty" minimum:"0" maximum:"31536000" doc:"0 means no limit; at the limit its callbacks are interrupted"`
	ID             string        `json:"id,omitempty" pattern:"^[A-Za-z0-9_-]{1,64}$" doc:"idempotency key, as of a cell"`
	Detached       bool          `json:"detached,omitempty" doc:"answer at once (202) with an ExecutionInfo"`
	Output         *OutputBudget `json:"output,omitempty"`
}

// Execute gives the execution that is asked for.
func (s SendComm) Execute() Execute {
	return Execute{Comm: &s.Comm, TimeoutSeconds: s.TimeoutSeconds, ID: s.ID, Detached: s.Detached, Output: s.Output}
}

// Comm is one of Jupyter's comm messages, as events of the type comm have them too.
type Comm struct {
	MsgType      string                     `json:"msg_type" enum:"comm_open,comm_msg,comm_close"`
	CommID       string                     `json:"comm_id" minLength:"1" maxLength:"128" doc:"of a widget: its model_id"`
	TargetName   string                     `json:"target_name,omitempty" maxLength:"256" doc:"comm_open: whom the kernel hands it to"`
	TargetModule string                     `json:"target_module,omitempty" maxLength:"256"`
	Data         map[string]json.RawMessage `json:"data,omitempty"`
	Metadata     map[string]json.RawMessage `json:"metadata,omitempty"`
	Buffers      []string                   `json:"buffers,omitempty" maxItems:"1000" doc:"base64"`
}

// OutputBudget bounds what an Execution holds of its output. Events and
// …/output give all of it.
type OutputBudget struct {
	StreamBytes int `json:"stream_bytes,omitempty" minimum:"0" maximum:"16777216" doc:"of stdout, and of stderr: head and tail are kept; 0: 65536"`
	ResultBytes int `json:"result_bytes,omitempty" minimum:"0" maximum:"67108864" doc:"of one result: its largest representations are left out, which metadata.pandastack.truncated tells; 0: 8388608"`
}

// ExecutionInfo describes a cell without its output.
type ExecutionInfo struct {
	ID             string        `json:"id"`
	ContextID      string        `json:"context_id"`
	Status         string        `json:"status" enum:"queued,running,ok,error,timeout,died,aborted"`
	Position       int           `json:"position,omitempty" doc:"in its context's queue, from 1"`
	Code           string        `json:"code" doc:"its beginning, at most 1024 bytes"`
	CommID         string        `json:"comm_id,omitempty" doc:"of the comm that it is a message to, instead of code"`
	Batch          string        `json:"batch,omitempty"`
	TimeoutSeconds float64       `json:"timeout_seconds,omitempty"`
	ExecutionCount int           `json:"execution_count,omitempty" doc:"the number in In [n], once it has ended; a message to a comm has none"`
	Events         int64         `json:"events" doc:"the number of the newest"`
	QueuedAt       time.Time     `json:"queued_at" doc:"by the sandbox's clock, as the others"`
	StartedAt      *time.Time    `json:"started_at,omitempty"`
	EndedAt        *time.Time    `json:"ended_at,omitempty"`
	Input          *InputRequest `json:"input,omitempty" doc:"the question that waits for an answer"`
}

// ExecutionList answers GET …/executions, the oldest first.
type ExecutionList struct {
	Items []ExecutionInfo `json:"items"`
}

// InputRequest is what input() or getpass() ask.
type InputRequest struct {
	Prompt   string `json:"prompt"`
	Password bool   `json:"password" doc:"do not show what is typed"`
}

// Input answers an InputRequest.
type Input struct {
	Text string `json:"text" maxLength:"1048576" doc:"one line without its end; U+0004 alone is the end of input"`
}

// ExecutionEvent is one event of a cell: the data of a server-sent event, whose
// name is type, or a message of the WebSocket. Fields that its type does not name are absent.
type ExecutionEvent struct {
	Seq  int64  `json:"seq" doc:"from 1; a gap is told by dropped"`
	Type string `json:"type" enum:"started,stdout,stderr,result,display_update,clear_output,error,input_request,comm,dropped,done"`

	Text           string          `json:"text,omitempty" doc:"stdout, stderr: no character is cut in two; carriage returns as they are"`
	Result         *Result         `json:"result,omitempty" doc:"result; display_update: what every result with its display_id shows from now on"`
	ExecutionCount int             `json:"execution_count,omitempty" doc:"result, where it is the main one"`
	Wait           bool            `json:"wait,omitempty" doc:"clear_output: at the next output"`
	Error          *CellError      `json:"error,omitempty"`
	Input          *InputRequest   `json:"input,omitempty"`
	Comm           json.RawMessage `json:"comm,omitempty" doc:"a message of Jupyter's comms"`
	Dropped        *Dropped        `json:"dropped,omitempty" doc:"stands for the events up to seq that were too many to keep"`
	Execution      *Execution      `json:"execution,omitempty" doc:"done: all that came of the cell, within the budget"`
}

// Follow says which events of an execution are wanted.
type Follow struct {
	After  int64 // the number of the last one that is known
	Until  string
	Output *OutputBudget // of what done holds
}

// How long an execution is followed; the default is to its end.
const (
	FollowNone = "none" // what there is
	FollowDone = "done"
	FollowAll  = "all" // also what its threads and processes print afterwards, until its kernel ends
)

// Dropped tells of events that were too many to keep.
type Dropped struct {
	First  int64    `json:"first" doc:"the first one's number"`
	Bytes  int64    `json:"bytes"`
	Stdout TextSize `json:"stdout"`
	Stderr TextSize `json:"stderr"`
}

// TextSize is how much text there was.
type TextSize struct {
	Bytes int64 `json:"bytes"`
	Lines int64 `json:"lines"`
}

// Complete asks what may stand at a place in code.
type Complete struct {
	Code      string `json:"code"`
	CursorPos *int   `json:"cursor_pos,omitempty" minimum:"0" doc:"in characters; default the end"`
}

// Completion answers Complete: what may replace the characters from cursor_start to cursor_end.
type Completion struct {
	Matches     []string                   `json:"matches"`
	CursorStart int                        `json:"cursor_start"`
	CursorEnd   int                        `json:"cursor_end"`
	Metadata    map[string]json.RawMessage `json:"metadata,omitempty"`
}

// Inspect asks what a name in code is.
type Inspect struct {
	Code      string `json:"code"`
	CursorPos *int   `json:"cursor_pos,omitempty" minimum:"0" doc:"in characters; default the end"`
	Detail    int    `json:"detail,omitempty" enum:"0,1" doc:"1: with source"`
}

// Inspection answers Inspect.
type Inspection struct {
	Found bool                       `json:"found"`
	Data  map[string]json.RawMessage `json:"data" doc:"by MIME type"`
}

// IsComplete asks whether code is all of a cell.
type IsComplete struct {
	Code string `json:"code"`
}

// Completeness answers IsComplete.
type Completeness struct {
	Status string `json:"status" enum:"complete,incomplete,invalid,unknown"`
	Indent string `json:"indent,omitempty" doc:"what the next line begins with"`
}

// History is what a context ran.
type History struct {
	Items []HistoryEntry `json:"items"`
}

// HistoryEntry is one cell of a context's history.
type HistoryEntry struct {
	Session int    `json:"session" doc:"0 is the kernel there is"`
	Line    int    `json:"line" doc:"the execution count"`
	Code    string `json:"code"`
}
