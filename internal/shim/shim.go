// Package shim is the per-VM process and both ends of its protocol. A shim is
// the VMM's parent: it starts and ends it, owns its monitor, its agent stream
// and all saving and loading of its memory, and outlives the server, which
// finds it again by its socket. What a guest sends is decoded and checked here
// and nowhere else.
package shim

import (
	"context"
	"os"
	"time"

	"pandastack/internal/guestproto"
)

// Spec is one machine to run. It is handed to the shim process as JSON.
type Spec struct {
	ID  string `json:"id"`
	Dir string `json:"dir"` // the run folder: socket, record, overlay, console; removed by whoever made it

	Kernel   string `json:"kernel"`
	Initrd   string `json:"initrd"`
	Cmdline  string `json:"cmdline"`
	CPUs     int    `json:"cpus"`
	MemoryMB int    `json:"memory_mb"`

	Base     string `json:"base"`      // raw image, read-only
	UpperRaw string `json:"upper_raw"` // raw ext4: written directly when booting a template, else read-only under Overlay
	Overlay  string `json:"overlay"`   // qcow2 on UpperRaw; "" writes UpperRaw itself

	// State is the device state to restore; "" boots. A restored machine maps
	// the memory handed to Launch.
	State string `json:"state"`
	// Layers are memory layers (package memimage) over that memory, the lowest
	// first, of one that was captured. Lowest names the memory itself; it is what
	// the first layer's parent must be.
	Layers []string `json:"layers,omitempty"`
	Lowest string   `json:"lowest"`
	// Compat is the compatibility key of State.
	Compat string `json:"compat,omitempty"`
	// Resume is sent to the agent once it says hello, with the time of then.
	Resume guestproto.ResumeRequest `json:"resume"`

	// TSCKHz is the host's time stamp counter, which a guest that boots is told
	// of. Launch fills it in.
	TSCKHz int `json:"tsc_khz"`

	// Nice is the priority of shim and VMM until the first Cont: what is made to
	// be ready must not slow down what runs.
	Nice int `json:"nice,omitempty"`

	Accelerator string `json:"accelerator"` // "" lets the driver choose
	Jail        Jail   `json:"jail"`
}

// Jail says how the VMM is confined; see vmm.Jail.
type Jail struct {
	Enabled bool   `json:"enabled"`
	Root    string `json:"root"`
	UID     int    `json:"uid"`
	GID     int    `json:"gid"`
}

// Phases of a shim's machine.
const (
	PhaseStarting = "starting"
	PhaseRunning  = "running"
	PhaseStopped  = "stopped" // vCPUs halted
	PhaseEnded    = "ended"   // the VMM process is gone
)

// State is what a shim knows of its machine.
type State struct {
	ID       string                  `json:"id"`
	Phase    string                  `json:"phase"`
	ShimPID  int                     `json:"shim_pid"`
	VMMPID   int                     `json:"vmm_pid"`
	Started  time.Time               `json:"started"`
	Steps    []guestproto.Step       `json:"steps"` // of the start
	Hello    guestproto.Hello        `json:"hello"`
	Report   guestproto.ResumeReport `json:"report"`
	Resumed  time.Time               `json:"resumed"` // when Report was made
	Failure  string                  `json:"failure"` // why Phase is ended
	Fault    string                  `json:"fault,omitempty"`
	Key      string                  `json:"key"`    // compatibility key (design §4.3), JSON
	Lowest   string                  `json:"lowest"` // Spec.Lowest
	Isolated bool                    `json:"isolated"`
	Accel    string                  `json:"accelerator"`
}

// Machine is a running shim as its server sees it. Methods may be called
// concurrently. It is *Client; services take this interface.
type Machine interface {
	// Guest speaks to the agent through the shim.
	Guest() guestproto.Guest
	State(ctx context.Context) (State, error)
	// Stop halts the vCPUs, Cont lets them go on (and resumes the agent).
	Stop(ctx context.Context) error
	Cont(ctx context.Context, req guestproto.ResumeRequest) (guestproto.ResumeReport, error)
	// Save stops the machine for good measure and writes its memory (sparse) and
	// device state to two new files, fsynced. The machine stays stopped.
	Save(ctx context.Context, memory, state string) (State, error)
	// Capture writes all that the machine is at one moment into req.Dir; see
	// CaptureRequest. On error the machine goes on as before and nothing is left
	// in req.Dir.
	Capture(ctx context.Context, req CaptureRequest) (Capture, error)
	// ChangedBytes is how much of the guest's memory is its own.
	ChangedBytes(ctx context.Context) (int64, error)
	// Close ends the VMM and the shim and returns when both are gone. The run
	// folder stays. It is fine on one that ended.
	Close(ctx context.Context) error
	// Done is closed when the shim or its VMM is gone; Failure then says why.
	Done() <-chan struct{}
	Failure() string
}

// Starter starts machines and finds those that run; *Launcher is one.
type Starter interface {
	// Launch starts a shim in spec.Dir and returns when the agent has said
	// hello and was resumed. memory is the sealed template memory to map, or nil
	// to boot. On error nothing is left but the run folder with its logs.
	Launch(ctx context.Context, spec Spec, memory *os.File) (Machine, error)
	// Adopt finds the shim of a run folder again; it fails when there is none. What
	// an earlier server had it do is over then.
	Adopt(ctx context.Context, dir string) (Machine, error)
	// Reap ends whatever processes of a run folder are left, by its record.
	Reap(ctx context.Context, dir string) error
}
