package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/panda"
)

// usageTime is how long a guest may take to say what it uses. One that is busy
// must not keep its owner from seeing what the host knows.
const usageTime = 2 * time.Second

// Usage looks at what a running sandbox uses; nil for one that does not run.
func (s *Service) Usage(ctx context.Context, id string) (*api.Usage, error) {
	in, moving, err := s.session(id)
	if moving != nil || err != nil && panda.CodeOf(err) != api.CodeSandboxNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	usage := &api.Usage{Network: "none"}
	if usage.Disk.HostBytes, err = allocated(in.disk()); err != nil {
		return nil, fmt.Errorf("usage of sandbox %s: %w", id, err)
	}
	bound, cancel := context.WithTimeout(ctx, usageTime)
	defer cancel()
	state, err := in.machine.State(bound)
	if err != nil {
		return usage, nil // it is ending, and its next call says so
	}
	for _, pid := range []int{state.ShimPID, state.VMMPID} {
		n, err := private(pid)
		if err != nil {
			return nil, fmt.Errorf("usage of sandbox %s: %w", id, err)
		}
		usage.Memory.HostPrivateBytes += n
	}
	if stats, err := in.guest.Stats(bound); err == nil {
		usage.Guest = guestUsage(stats)
	}
	return usage, nil
}

// guestUsage keeps a guest's figures from making no sense.
func guestUsage(s guestproto.Stats) *api.GuestUsage {
	total, diskTotal := max(s.MemTotal, 0), max(s.DiskTotal, 0)
	return &api.GuestUsage{
		MemoryTotalBytes: total, MemoryAvailableBytes: min(max(s.MemAvailable, 0), total),
		DiskTotalBytes: diskTotal, DiskUsedBytes: diskTotal - min(max(s.DiskFree, 0), diskTotal),
		CPUSeconds: max(s.CPUSeconds, 0), UptimeSeconds: max(s.Uptime, 0), Processes: max(s.Processes, 0),
	}
}

// allocated is what a sparse file takes on disk; 0 where there is none.
func allocated(path string) (int64, error) {
	var info syscall.Stat_t
	err := syscall.Lstat(path, &info)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return info.Blocks * 512, err
}

// private is the memory that only this process has: its anonymous pages, also
// those that it wrote over shared ones, in memory or swapped out. "Private" of
// the kernel would count a template's pages to the only sandbox that uses them.
// A process that is gone has none, and neither has one that may not be looked at.
func private(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH), errors.Is(err, fs.ErrPermission):
		return 0, nil
	case err != nil:
		return 0, err
	}
	var kB int64
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) > 1 && (string(f[0]) == "Anonymous:" || string(f[0]) == "Swap:") {
			n, err := strconv.ParseInt(string(f[1]), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("smaps_rollup: %w", err)
			}
			kB += n
		}
	}
	return kB << 10, nil
}
