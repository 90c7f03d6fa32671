package vmm

import (
	"fmt"
	"strings"

	"pandastack/internal/panda"
)

// MemoryName is the name every guest memory's memfd must have.
const MemoryName = "pandastack"

// Key is what must be equal for a snapshot to load (design §4.3). The VMM
// checks none of it: state of another CPU model "succeeds" and hangs.
type Key struct {
	VMM         string `json:"vmm"`
	Version     string `json:"version"` // with the package's revision
	Accelerator string `json:"accelerator"`
	CPUModel    string `json:"cpu_model"`
	CPUs        int    `json:"cpus"`
	MemoryMB    int    `json:"memory_mb"`
	Machine     string `json:"machine"` // digest of the arguments, devices included
	Protocol    int    `json:"protocol"`
	TSCKHz      int    `json:"tsc_khz"`
}

// tscTolerance is how far, in parts per million, the host's time stamp counter
// may be from the one a guest was told of.
const tscTolerance = 100

// Fits says whether a snapshot made under k can be loaded under host; if not,
// the error names what differs.
func (k Key) Fits(host Key) error {
	var diffs []string
	differ := func(name string, saved, now any) {
		if saved != now {
			diffs = append(diffs, fmt.Sprintf("%s was %v and is %v", name, saved, now))
		}
	}
	differ("the VMM", k.VMM, host.VMM)
	differ("its version", k.Version, host.Version)
	differ("the accelerator", k.Accelerator, host.Accelerator)
	differ("the CPU model", k.CPUModel, host.CPUModel)
	differ("the number of CPUs", k.CPUs, host.CPUs)
	differ("the memory in MB", k.MemoryMB, host.MemoryMB)
	differ("the machine's devices", k.Machine, host.Machine)
	differ("the agent protocol", k.Protocol, host.Protocol)
	if off := ppm(k.TSCKHz, host.TSCKHz); off > tscTolerance {
		diffs = append(diffs, fmt.Sprintf("the time stamp counter is %d kHz and was %d", host.TSCKHz, k.TSCKHz))
	}
	if len(diffs) == 0 {
		return nil
	}
	return &panda.Error{Code: "snapshot.host_mismatch",
		Message: "the snapshot was made for another machine: " + strings.Join(diffs, ", ")}
}

func ppm(a, b int) int {
	if a == 0 || b == 0 {
		return tscTolerance + 1
	}
	d := a - b
	if d < 0 {
		d = -d
	}
	return d * 1_000_000 / a
}
