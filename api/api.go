// Package api holds the wire types of REST v1 (everything under /v1) and the
// registry of error codes. Durations are in the unit their name says, sizes are
// bytes unless the name says MB (2^20 bytes), times are RFC 3339 in UTC.
package api

import (
	"encoding/json"
	"time"
)

// Sandbox is one microVM.
type Sandbox struct {
	ID         string            `json:"id" doc:"20 characters of a-z0-9"`
	Template   string            `json:"template"`
	CPU        int               `json:"cpu" doc:"virtual CPUs"`
	MemoryMB   int               `json:"memory_mb"`
	Status     string            `json:"status" enum:"creating,running,paused,hibernated,stopping,deleted,failed"`
	CreatedAt  time.Time         `json:"created_at"`
	Metadata   map[string]string `json:"metadata"`
	TTLSeconds int               `json:"ttl_seconds" doc:"seconds of life after creation, or after they were last set; 0 means until deleted"`
	ExpiresAt  *time.Time        `json:"expires_at,omitempty"`
	Persistent bool              `json:"persistent" doc:"clients leave it alive at the end of their with or using block; expires_at holds all the same"`
	// Isolation is hardware-vm, emulated-vm+jail, or emulated-vm where the
	// server lacks the rights to build the jail.
	Isolation    string `json:"isolation"`
	Accelerator  string `json:"accelerator" enum:"kvm,tcg"`
	Start        Start  `json:"start"`
	BootMS       int    `json:"boot_ms" doc:"start.total_ms rounded, for PandaStack's published clients"`
	BootMode     string `json:"boot_mode" doc:"start.kind, for PandaStack's published clients"`
	FromSnapshot string `json:"from_snapshot,omitempty" doc:"the snapshot it was made from"`
	ForkParentID string `json:"fork_parent_id,omitempty" doc:"the sandbox it is a copy of"`
	ForkTreeID   string `json:"fork_tree_id,omitempty" doc:"which it has in common with the copies made by the same call"`
	GuestIP      string `json:"guest_ip,omitempty"`
	Failure      string `json:"failure,omitempty" doc:"why status is failed and what can be restored"`
	Usage        *Usage `json:"usage,omitempty" doc:"GET of one running sandbox: what it uses now"`
	// Resumed is there for GET of one running sandbox.
	Resumed *Resumed `json:"resumed,omitempty" doc:"GET of one running sandbox: what was renewed when its machine went on the last time (start, wake, resume, fork, snapshot)"`
	Saved   *Saved   `json:"saved,omitempty" doc:"GET of one hibernated sandbox, and the answer to hibernate: what is on disk"`
}

// Usage is what a sandbox uses at one moment.
type Usage struct {
	Memory  HostMemory  `json:"memory"`
	Disk    HostDisk    `json:"disk"`
	Network string      `json:"network" enum:"none" doc:"what it may reach"`
	Guest   *GuestUsage `json:"guest,omitempty" doc:"what the guest says of itself; missing when it does not answer in time"`
}

// HostMemory is what a sandbox has of its host's memory.
type HostMemory struct {
	HostPrivateBytes  int64 `json:"host_private_bytes" doc:"anonymous memory of the VMM and the process beside it, swapped out or not; memory shared with the template does not count"`
	HostSharedBytes   int64 `json:"host_shared_bytes" doc:"what both have mapped besides: the template's memory as far as it is used, programs"`
	GuestChangedBytes int64 `json:"guest_changed_bytes" doc:"pages of the guest's memory that are its own, and no longer the template's; part of host_private_bytes"`
}

// HostDisk is what a sandbox has of its host's disk.
type HostDisk struct {
	HostBytes int64 `json:"host_bytes" doc:"allocated by its overlay on the template's disk"`
}

// GuestUsage is the guest's own view. It is the guest's word, and a guest may lie.
type GuestUsage struct {
	MemoryTotalBytes     int64   `json:"memory_total_bytes"`
	MemoryAvailableBytes int64   `json:"memory_available_bytes"`
	DiskTotalBytes       int64   `json:"disk_total_bytes"`
	DiskUsedBytes        int64   `json:"disk_used_bytes"`
	CPUSeconds           float64 `json:"cpu_seconds" doc:"used since the sandbox was started"`
	UptimeSeconds        float64 `json:"uptime_seconds" doc:"since the same moment"`
	Processes            int     `json:"processes"`
}

// Start says how a sandbox came to life.
type Start struct {
	Kind    string  `json:"kind" enum:"ready,restored,booted"`
	TotalMS float64 `json:"total_ms"`
	Steps   []Step  `json:"steps"`
	Lost    string  `json:"lost,omitempty" enum:"memory" doc:"what the sandbox had before and has no more: its machine ended and was booted from its disk"`
}

// Step is one named part of a start.
type Step struct {
	Name  string  `json:"name"`
	MS    float64 `json:"ms"`
	Error string  `json:"error,omitempty" doc:"an on_resume hook that failed"`
}

// Resumed is what a sandbox's agent did when its machine went on the last time.
type Resumed struct {
	At    time.Time `json:"at"`
	Steps []Step    `json:"steps"`
}

// CreateSandbox asks for a sandbox.
type CreateSandbox struct {
	Template   string            `json:"template,omitempty" default:"code-interpreter" doc:"ubuntu-24.04, the default of a published client, means base"`
	CPU        int               `json:"cpu,omitempty" minimum:"1" maximum:"64" doc:"virtual CPUs; default the template's. Another size than the template's is baked when first asked for"`
	MemoryMB   int               `json:"memory_mb,omitempty" minimum:"128" maximum:"1048576" doc:"default the template's"`
	Metadata   map[string]string `json:"metadata,omitempty" maxProperties:"64"`
	TTLSeconds int               `json:"ttl_seconds,omitempty" minimum:"0" maximum:"31536000" doc:"0 means until deleted"`
	Persistent bool              `json:"persistent,omitempty"`
	Env        map[string]string `json:"env,omitempty" doc:"environment of every process and context started through the API"`

	FromSnapshot       string `json:"from_snapshot,omitempty" doc:"id or name of a snapshot to go on from, with its template and size"`
	IdleTimeoutSeconds int    `json:"idle_timeout_seconds,omitempty" minimum:"0" maximum:"31536000" doc:"on_timeout happens when nothing has run in it for so long; 0 means never"`
	OnTimeout          string `json:"on_timeout,omitempty" enum:"kill,hibernate" default:"kill" doc:"what happens at the end of a time to live or of an idle time"`
	AutoWake           *bool  `json:"auto_wake,omitempty" default:"true" doc:"the next call wakes it from hibernation"`
}

// Lifecycle says when a sandbox ends by itself.
type Lifecycle struct {
	TTLSeconds  int        `json:"ttl_seconds" doc:"seconds of life after creation, or after they were last set; 0 means until deleted"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
	Persistent  bool       `json:"persistent"`
	IdleSeconds float64    `json:"idle_seconds" doc:"since the last call on its contexts, processes and files ended; 0 while one is under way"`

	IdleTimeoutSeconds int    `json:"idle_timeout_seconds" doc:"on_timeout happens when nothing has run in it for so long; 0 means never"`
	OnTimeout          string `json:"on_timeout" enum:"kill,hibernate" doc:"what happens at the end of a time to live or of an idle time"`
	AutoWake           bool   `json:"auto_wake" doc:"the next call wakes it from hibernation"`
}

// SetLifecycle changes what it names.
type SetLifecycle struct {
	TTLSeconds *int  `json:"ttl_seconds,omitempty" minimum:"0" maximum:"31536000" doc:"from now; 0 means until deleted"`
	Persistent *bool `json:"persistent,omitempty"`

	IdleTimeoutSeconds *int    `json:"idle_timeout_seconds,omitempty" minimum:"0" maximum:"31536000" doc:"0 means never"`
	OnTimeout          *string `json:"on_timeout,omitempty" enum:"kill,hibernate"`
	AutoWake           *bool   `json:"auto_wake,omitempty"`
}

// SandboxList answers GET /v1/sandboxes.
type SandboxList struct {
	Items []Sandbox `json:"items"`
}

// Context is one long-lived kernel in a sandbox.
type Context struct {
	ID             string    `json:"id"`
	SandboxID      string    `json:"sandbox_id"`
	Name           string    `json:"name,omitempty"`
	Language       string    `json:"language"`
	Kernel         string    `json:"kernel,omitempty" doc:"the kernelspec it runs; absent for PandaStack's own Python kernel"`
	Cwd            string    `json:"cwd"`
	Status         string    `json:"status" enum:"idle,busy,dead"`
	Waiting        int       `json:"waiting" doc:"cells that wait behind the running one"`
	ExecutionCount int       `json:"execution_count"`
	Restarts       int       `json:"restarts" doc:"how often its state was lost"`
	CreatedAt      time.Time `json:"created_at"`
}

// CreateContext asks for a kernel.
type CreateContext struct {
	Name     string            `json:"name,omitempty" maxLength:"64" doc:"a label"`
	Language string            `json:"language,omitempty" maxLength:"64" doc:"python unless kernel says otherwise"`
	Kernel   string            `json:"kernel,omitempty" maxLength:"128" doc:"a Jupyter kernelspec of the template; default: the language's own"`
	Cwd      string            `json:"cwd,omitempty" doc:"default /workspace"`
	Env      map[string]string `json:"env,omitempty"`
}

// ContextList answers GET …/contexts.
type ContextList struct {
	Items []Context `json:"items"`
}

// Execution is one cell and what came of it. A cell that raises or runs into
// its limit is a 200 whose error says so.
type Execution struct {
	ID             string     `json:"id"`
	ContextID      string     `json:"context_id"`
	Status         string     `json:"status" enum:"queued,running,ok,error,timeout,died,aborted"`
	ExecutionCount int        `json:"execution_count"`
	Results        []Result   `json:"results" doc:"one per displayed object, in order"`
	Stdout         string     `json:"stdout"`
	Stderr         string     `json:"stderr"`
	Error          *CellError `json:"error"`
	DurationMS     float64    `json:"duration_ms"`
	// ContextRestarted says that the context's variables are gone: lost under this cell or before it.
	ContextRestarted bool        `json:"context_restarted"`
	Truncated        *Truncation `json:"truncated,omitempty"`
	// Events is the number of the newest event that is in this answer.
	Events int64         `json:"events,omitempty"`
	Input  *InputRequest `json:"input,omitempty" doc:"the question that waits for an answer"`
}

// Result is one displayed object with all its representations. Binary types
// are base64, application/json (and +json) are JSON values, everything else is a string.
type Result struct {
	Data         map[string]json.RawMessage `json:"data"`
	Metadata     map[string]json.RawMessage `json:"metadata"`
	IsMainResult bool                       `json:"is_main_result" doc:"the cell's last expression"`
	DisplayID    string                     `json:"display_id,omitempty"`
}

// CellError is an exception that ended a cell, or Timeout, or KernelDied.
type CellError struct {
	Name      string `json:"name"`
	Value     string `json:"value"`
	Traceback string `json:"traceback" doc:"formatted, without colours"`
	ExitCode  *int   `json:"exit_code,omitempty"`
	Signal    string `json:"signal,omitempty"`
}

// Truncation says what of an execution's output was left out of this answer.
type Truncation struct {
	Stdout  *TruncatedStream `json:"stdout,omitempty"`
	Stderr  *TruncatedStream `json:"stderr,omitempty"`
	Results int              `json:"results,omitempty" doc:"how many results were left out"`
	Partial int              `json:"partial_results,omitempty" doc:"how many of those that are here lack representations; metadata.pandastack.truncated of each says which"`
}

// TruncatedStream gives a stream's whole size and how much of it is here (head and tail).
type TruncatedStream struct {
	Bytes int64 `json:"bytes" doc:"of the whole"`
	Lines int64 `json:"lines" doc:"line breaks in the whole"`
	Kept  int64 `json:"kept" doc:"bytes that are here"`
}

// Exec runs one process. Give cmd (a line for /bin/sh) or argv.
type Exec struct {
	Cmd            string            `json:"cmd,omitempty"`
	Argv           []string          `json:"argv,omitempty"`
	Cwd            string            `json:"cwd,omitempty" doc:"default /workspace"`
	Env            map[string]string `json:"env,omitempty"`
	Stdin          string            `json:"stdin,omitempty"`
	TimeoutSeconds float64           `json:"timeout_seconds,omitempty" minimum:"0" maximum:"31536000" doc:"0 means no limit"`
}

// ExecResult is what a process left.
type ExecResult struct {
	Stdout     string      `json:"stdout"`
	Stderr     string      `json:"stderr"`
	ExitCode   int         `json:"exit_code" doc:"128 + signal number when a signal ended it"`
	Signal     string      `json:"signal,omitempty"`
	DurationMS float64     `json:"duration_ms"`
	Truncated  *Truncation `json:"truncated,omitempty"`
}

// ExecChunk is the data of the events stdout and stderr of exec/stream.
type ExecChunk struct {
	Chunk string `json:"chunk" doc:"UTF-8, no character is cut in two; what is not UTF-8 is U+FFFD"`
}

// ExecExit is the data of the event exit of exec/stream.
type ExecExit struct {
	ExitCode   int     `json:"exit_code" doc:"128 + signal number when a signal ended it"`
	Signal     string  `json:"signal,omitempty"`
	TimedOut   bool    `json:"timed_out,omitempty"`
	DurationMS float64 `json:"duration_ms"`
}

// LogLine is the data of an event of logs.
type LogLine struct {
	Line string `json:"line"`
}

// FileInfo describes one file in a sandbox.
type FileInfo struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	IsDir bool   `json:"is_dir"`
	Size  int64  `json:"size"`
	Mode  string `json:"mode" doc:"as ls prints it"`
	MTime int64  `json:"mtime" doc:"Unix seconds"`
	Link  string `json:"link,omitempty" doc:"target of a symbolic link"`
}

// FileWritten answers PUT …/fs.
type FileWritten struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}

// Directory answers GET …/fs/dir.
type Directory struct {
	Entries []FileInfo `json:"entries"`
}

// Template is what sandboxes are made from.
type Template struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Status      string          `json:"status" enum:"not_built,building,ready,failed"`
	CPU         int             `json:"cpu"`
	MemoryMB    int             `json:"memory_mb"`
	SizeBytes   int64           `json:"size_bytes" doc:"of the disk image"`
	Digest      string          `json:"digest,omitempty" doc:"of the disk image"`
	BuiltAt     *time.Time      `json:"built_at,omitempty"`
	Packages    json.RawMessage `json:"packages,omitempty" doc:"GET of one template: what is in it"`
}

// Health answers GET /v1/health.
type Health struct {
	Status      string `json:"status" enum:"ok"`
	Sandboxes   int    `json:"sandboxes"`
	Ready       int    `json:"ready" doc:"machines that wait for a sandbox to be created"`
	ReadyWanted int    `json:"ready_wanted" doc:"how many should wait, by the rate of creations"`
	Isolation   string `json:"isolation"`
	Accelerator string `json:"accelerator"`
}

// Version answers GET /v1/version.
type Version struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	VMM     string `json:"vmm"`
}

// Error is every error's body.
type Error struct {
	Error  string         `json:"error" doc:"one sentence"`
	Code   string         `json:"code" doc:"stable, from the registry"`
	Hint   string         `json:"hint" doc:"what to do"`
	Fields []FieldError   `json:"fields,omitempty" doc:"what is wrong with which part of the request"`
	Detail map[string]any `json:"detail,omitempty"`
}

// FieldError points into a request.
type FieldError struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}
