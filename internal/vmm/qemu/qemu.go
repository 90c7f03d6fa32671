// Package qemu runs machines with QEMU's microvm machine type, under KVM where
// a guest really runs on it and under TCG everywhere else. A VMM gets every
// file as an inherited descriptor, so that its jail holds nothing but QEMU.
package qemu

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"pandastack/internal/guestproto"
	"pandastack/internal/kit/jail"
	"pandastack/internal/panda"
	"pandastack/internal/vmm"
)

// emulatedCPU is all that TCG can do, less what it does badly.
//
// Without AVX and what builds on it: QEMU 7.2 computes some of it wrong, and
// NumPy, which sorts with it, then gives wrong answers without any error.
//
// Without fast string moves: TCG emulates those byte by byte, and programs that
// see the flags copy with nothing else.
const emulatedCPU = "max,-avx,-avx2,-fma,-f16c,-vaes,-vpclmulqdq,-erms,-fsrm"

// emulatedKernelArgs keep the guest's kernel from allocating memory with cmpxchg16b:
// TCG before QEMU 8 leaves the flags register wrong until the next instruction that sets
// it, and an interrupt just then is a double fault, or leaves the guest without
// interrupts. On a busy host it killed about one restored guest in a thousand.
const emulatedKernelArgs = "clearcpuid=cx16"

// Driver implements vmm.Driver.
type Driver struct {
	// Accelerator is kvm or tcg; "" means tcg.
	Accelerator string

	mu    sync.Mutex
	caps  *vmm.Capabilities
	roots map[string]string // what JailRoot gave, by parent
}

// Name is the driver's name.
func (d *Driver) Name() string { return "qemu" }

// Capabilities finds QEMU on PATH and asks for its version, once.
func (d *Driver) Capabilities(ctx context.Context) (vmm.Capabilities, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.caps != nil {
		return *d.caps, nil
	}
	binary, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		return vmm.Capabilities{}, &panda.Error{Code: "host.no_vmm", Message: "qemu-system-x86_64 is not on the server's PATH", Cause: err}
	}
	if binary, err = filepath.EvalSymlinks(binary); err != nil {
		return vmm.Capabilities{}, err
	}
	out, err := exec.CommandContext(ctx, binary, "--version").Output()
	if err != nil {
		return vmm.Capabilities{}, &panda.Error{Code: "host.no_vmm", Message: binary + " does not run", Cause: err}
	}
	version, err := parseVersion(string(out))
	if err != nil {
		return vmm.Capabilities{}, err
	}
	caps := vmm.Capabilities{VMM: "qemu", Version: version, Binary: binary, Accelerator: d.Accelerator, CPUModel: emulatedCPU}
	if caps.Accelerator == "" {
		caps.Accelerator = "tcg"
	}
	switch caps.Accelerator {
	case "tcg":
		caps.KernelArgs = emulatedKernelArgs
	case "kvm":
		caps.CPUModel = "Skylake-Server-v1" // a named model: what "max" means differs between hosts
	}
	d.caps = &caps
	return caps, nil
}

// parseVersion takes "7.2.22 (Debian 1:7.2+…)" out of QEMU's first line; the
// package revision counts, since device state may change with it.
func parseVersion(out string) (string, error) {
	line, _, _ := strings.Cut(out, "\n")
	_, version, ok := strings.Cut(line, "version ")
	if !ok {
		return "", fmt.Errorf("qemu: unknown version line %q", line)
	}
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return "", fmt.Errorf("qemu: unknown version %q", version)
	}
	if major*100+minor < 702 {
		return "", &panda.Error{Code: "host.no_vmm", Message: "QEMU " + version + " is too old, 7.2 is needed (for -netdev stream)"}
	}
	return version, nil
}

// Key describes a machine of these dimensions by its arguments with nothing in
// them that belongs to one machine or one template.
func (d *Driver) Key(ctx context.Context, cpus, memoryMB int) (vmm.Key, error) {
	caps, err := d.Capabilities(ctx)
	if err != nil {
		return vmm.Key{}, err
	}
	args, _ := arguments(vmm.Spec{CPUs: cpus, MemoryMB: memoryMB, Accelerator: caps.Accelerator, CPUModel: caps.CPUModel}, sockets{})
	sum := sha256.Sum256([]byte(strings.Join(args, "\n")))
	return vmm.Key{
		VMM: caps.VMM, Version: caps.Version, Accelerator: caps.Accelerator, CPUModel: caps.CPUModel,
		CPUs: cpus, MemoryMB: memoryMB, Machine: hex.EncodeToString(sum[:8]), Protocol: guestproto.Version,
	}, nil
}

// JailRoot makes, once per installed QEMU, the folder that is its root in the
// jail. Like the version, it is looked at once: a QEMU updated under a running
// server is not the one its snapshots fit.
func (d *Driver) JailRoot(ctx context.Context, parent string) (string, error) {
	caps, err := d.Capabilities(ctx)
	if err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if root := d.roots[parent]; root != "" {
		return root, nil
	}
	root, err := jail.BuildRoot(parent, []string{caps.Binary}, []string{
		"/usr/lib/x86_64-linux-gnu/qemu/accel-*.so",
		"/usr/share/qemu/*.bin", "/usr/share/seabios/*.bin", "/usr/lib/ipxe/qemu/*.rom",
		"/etc/ld.so.cache",
	})
	if err == nil {
		if d.roots == nil {
			d.roots = map[string]string{}
		}
		d.roots[parent] = root
	}
	return root, err
}

// procFile opens a file about a VMM's process.
func procFile(pid int, name string) (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/%d/%s", pid, name))
}
