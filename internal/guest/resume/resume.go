// Package resume repairs what a guest cannot know after it stood still: the
// time, its randomness, and who it is.
package resume

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pandastack/internal/guestproto"
)

// System changes the machine the agent is init of.
type System struct {
	// Reseed gives the kernels fresh randomness.
	Reseed func(ctx context.Context, seed []byte) error
	// Machine is false where the agent is an ordinary process: it then leaves
	// the clock, the kernel's randomness and the names alone.
	Machine bool
	// Exec runs the hooks; nil runs none.
	Exec Exec
}

const minSeed = 32

var machineID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// Resume implements guestproto.Guest.
func (s System) Resume(ctx context.Context, req guestproto.ResumeRequest) (guestproto.ResumeReport, error) {
	var r guestproto.ResumeReport
	if err := check(req); err != nil {
		return r, err
	}
	steps := []struct {
		name   string
		needed bool
		do     func() error
	}{
		{"clock", s.Machine && req.WallClockNS != 0, func() error { return setClock(req.WallClockNS, req.Clock == guestproto.ClockSlew) }},
		{"entropy", s.Machine && req.Reseed, func() error { return addEntropy(req.Seed) }},
		{"machine-id", s.Machine && req.MachineID != "", func() error { return setMachineID(req.MachineID) }},
		{"hostname", s.Machine && req.Hostname != "", func() error { return setHostname(req.Hostname) }},
		{"kernels", req.Reseed, func() error { return s.Reseed(ctx, req.Seed) }},
	}
	for _, step := range steps {
		if !step.needed {
			continue
		}
		begun := time.Now()
		if err := step.do(); err != nil {
			return r, fmt.Errorf("resume: %s: %w", step.name, err)
		}
		r.Steps = append(r.Steps, guestproto.Step{Name: step.name, MS: milliseconds(begun)})
	}
	if s.Exec != nil && req.Clock == "" {
		r.Steps = append(r.Steps, s.hooks(ctx, HooksDir, req.Reseed)...)
	}
	return r, nil
}

func check(req guestproto.ResumeRequest) error {
	switch {
	case req.WallClockNS < 0:
		return guestproto.Errorf(guestproto.CodeInvalid, "resume: negative wall clock")
	case req.Reseed && len(req.Seed) < minSeed:
		return guestproto.Errorf(guestproto.CodeInvalid, "resume: want %d bytes of seed or more, got %d", minSeed, len(req.Seed))
	case len(req.Seed) > maxSeed:
		return guestproto.Errorf(guestproto.CodeInvalid, "resume: want at most %d bytes of seed", maxSeed)
	case req.MachineID != "" && !machineID.MatchString(req.MachineID):
		return guestproto.Errorf(guestproto.CodeInvalid, "resume: machine id: want 32 hex digits")
	case len(req.Hostname) > 64 || strings.ContainsAny(req.Hostname, "\x00\n/ "):
		return guestproto.Errorf(guestproto.CodeInvalid, "resume: bad hostname")
	}
	return nil
}

// slewLimit is what can be made good bit by bit: the kernel turns a clock by half a
// millisecond a second.
const slewLimit = 100 * time.Millisecond

func setClock(ns int64, slew bool) error {
	if off := time.Until(time.Unix(0, ns)); slew && off.Abs() < slewLimit {
		_, err := unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_OFFSET_SINGLESHOT, Offset: off.Microseconds()})
		return os.NewSyscallError("adjtimex", err)
	}
	ts := unix.NsecToTimespec(ns)
	return os.NewSyscallError("clock_settime", unix.ClockSettime(unix.CLOCK_REALTIME, &ts))
}

const maxSeed = 512

// entropy is the kernel's struct rand_pool_info.
type entropy struct {
	bits, size int32
	buf        [maxSeed]byte
}

// addEntropy mixes seed in and makes the kernel use it: without the second
// call, clones of one state go on with identical random numbers.
func addEntropy(seed []byte) error {
	f, err := os.OpenFile("/dev/random", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	e := entropy{bits: int32(8 * len(seed)), size: int32(len(seed))}
	copy(e.buf[:], seed)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.RNDADDENTROPY, uintptr(unsafe.Pointer(&e))); errno != 0 {
		return os.NewSyscallError("RNDADDENTROPY", errno)
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), rndReseedCRNG, 0); errno != 0 {
		return os.NewSyscallError("RNDRESEEDCRNG", errno)
	}
	return nil
}

const rndReseedCRNG = 0x5207 // _IO('R', 0x07)

// MachineIDFile is what /etc/machine-id leads to: a file in memory, since every
// resume writes it and writing to the disk costs more than all else there.
const MachineIDFile = "/run/machine-id"

// setMachineID replaces the file as a whole; what reads it finds one or the other.
func setMachineID(id string) error {
	const temp = MachineIDFile + ".new"
	if err := os.WriteFile(temp, []byte(id+"\n"), 0o444); err != nil {
		return err
	}
	return os.Rename(temp, MachineIDFile)
}

func setHostname(name string) error {
	return os.NewSyscallError("sethostname", unix.Sethostname([]byte(name)))
}
