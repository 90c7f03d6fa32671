// Package vmm is the contract between the shim and a virtual machine monitor.
package vmm

import (
	"context"
	"io"
	"net"
	"os"
)

// ConsoleFile is the log of a machine's serial console in its folder, kept with
// package boundlog.
const ConsoleFile = "console.log"

// Driver starts machines with one VMM. Methods may be called concurrently.
type Driver interface {
	Name() string
	// Capabilities looks at the host: which VMM, which version, which accelerator.
	// It starts no machine and says in its error what to install.
	Capabilities(ctx context.Context) (Capabilities, error)
	// Key gives the compatibility key of machines of these dimensions here,
	// without the TSC, which belongs to the host and not to the driver.
	Key(ctx context.Context, cpus, memoryMB int) (Key, error)
	// Start boots spec, or with spec.State restores it and leaves it stopped.
	// When it returns an error nothing is left: no process, no mount, no file
	// outside spec.Dir. The caller keeps its own ends of spec's files and may
	// close them once Start has returned.
	Start(ctx context.Context, spec Spec) (Machine, error)
}

// Capabilities of a driver on this host.
type Capabilities struct {
	VMM         string // qemu
	Version     string // 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)
	Binary      string
	Accelerator string // tcg or kvm
	CPUModel    string
	KernelArgs  string // what a Linux guest is to be told on this host, for its command line
}

// Spec is one machine. Everything in it but Dir, Agent-side wiring and the
// jail belongs to the ABI of the snapshots taken from it (see Key).
type Spec struct {
	ID   string
	Dir  string // private folder: console log, jail root mount point
	Nice int    // of the VMM from its first moment

	Kernel, Initrd *os.File
	Cmdline        string
	CPUs           int
	MemoryMB       int
	Accelerator    string
	CPUModel       string

	Base  *os.File // raw, read-only
	Upper Upper

	// Memory is a memfd of MemoryMB. MemoryShared maps it shared (a template
	// being baked); otherwise it is sealed and mapped private.
	Memory       *os.File
	MemoryShared bool

	// State is the device state to restore, or nil to boot. Fill, if there is one,
	// is called before State is loaded: the guest's memory may still be written.
	State *os.File
	Fill  func(Mapping) error

	Jail Jail
}

// Upper is the machine's writable disk: a qcow2 overlay on a raw file, or the
// raw file itself when Overlay is nil.
type Upper struct {
	Raw     *os.File // read-only under an overlay, else read-write
	Overlay *os.File
}

// Jail says how the VMM process is confined. The zero value confines it by
// what needs no privileges (no_new_privs, seccomp, rlimits).
type Jail struct {
	Enabled bool   // namespaces, private root, own uid
	Root    string // folder with the VMM's files, bound read-only as its root
	UID     int
	GID     int
}

// Machine is one running VMM process. Kill and Wait may be called by anyone at
// any time; the other methods one at a time.
type Machine interface {
	PID() int
	// Agent and Events are the host ends of the two guest ports.
	Agent() net.Conn
	Events() net.Conn
	// Stop halts the vCPUs; Cont lets them go on. Both are fine twice.
	Stop(ctx context.Context) error
	Cont(ctx context.Context) error
	// SaveState writes the device state of a stopped machine to w, which must be
	// open for writing only.
	SaveState(ctx context.Context, w *os.File) error
	// Memory gives the guest memory's mapping in the VMM's address space.
	Memory() (Mapping, error)
	// Note adds a line to the console's log, where the guest's own would cost it
	// milliseconds: its console is slow.
	Note(line string)
	// Kill ends the process at once. It is fine on one that ended.
	Kill() error
	// Done is closed when the process is gone and everything Start made is
	// released; Err then says how it ended.
	Done() <-chan struct{}
	Err() error
}

// Inspector is a Machine that can tell what it waits for.
type Inspector interface {
	// Inspect writes what the VMM and its guest do at this moment, for whoever
	// looks into a start that failed. It takes seconds, also when the VMM hangs or
	// has ended. The machine is of no use afterwards but to be killed.
	Inspect(ctx context.Context, w io.Writer)
}

// Mapping is a range of another process's memory.
type Mapping struct {
	PID        int
	Start, Len uint64
}
