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
	"pandastack/internal/kit/clone"
	"pandastack/internal/panda"
	"pandastack/internal/shim"
)

// usageTime is how long a guest may take to say what it uses. One that is busy
// must not keep its owner from seeing what the host knows.
const usageTime = 2 * time.Second

// Look tells what a sandbox uses now, or has on disk.
func (s *Service) Look(ctx context.Context, id string) (seen panda.Seen, err error) {
	in, moving, err := s.session(id)
	switch {
	case moving != nil:
		return seen, nil
	case panda.CodeOf(err) == api.CodeSandboxNotFound:
		return seen, err
	case err != nil:
		return s.lookAtSave(id), nil
	}
	seen.Usage = &api.Usage{Network: "none"}
	if seen.Usage.Disk.HostBytes, err = allocated(in.disk()); err != nil {
		return seen, fmt.Errorf("usage of sandbox %s: %w", id, err)
	}
	bound, cancel := context.WithTimeout(ctx, usageTime)
	defer cancel()
	state, err := in.machine.State(bound)
	if err != nil {
		return seen, nil // it is ending, and its next call says so
	}
	seen.Resumed = resumed(state)
	if seen.Usage.Memory, err = hostMemory(state); err != nil {
		return seen, fmt.Errorf("usage of sandbox %s: %w", id, err)
	}
	if n, err := in.machine.ChangedBytes(bound); err == nil {
		seen.Usage.Memory.GuestChangedBytes = n
	}
	if stats, err := in.guest.Stats(bound); err == nil {
		seen.Usage.Guest = guestUsage(stats)
	}
	return seen, nil
}

// lookAtSave is of use where there is one.
func (s *Service) lookAtSave(id string) (seen panda.Seen) {
	record, err := s.Get(context.Background(), id)
	if err != nil || record.Status != panda.Hibernated {
		return seen
	}
	if v, err := s.readSave(record.Saved); err == nil {
		seen.Saved = &v.Figures
	}
	return seen
}

func hostMemory(state shim.State) (m api.HostMemory, err error) {
	for _, pid := range []int{state.ShimPID, state.VMMPID} {
		private, shared, err := memoryOf(pid)
		if err != nil {
			return m, err
		}
		m.HostPrivateBytes += private
		m.HostSharedBytes += shared
	}
	return m, nil
}

func resumed(state shim.State) *api.Resumed {
	out := &api.Resumed{At: state.Resumed.UTC(), Steps: []api.Step{}}
	for _, step := range state.Report.Steps[:min(len(state.Report.Steps), maxSteps)] {
		step.Name, step.Error = shorten(step.Name, 128), shorten(step.Error, 256)
		out.Steps = append(out.Steps, api.Step(step))
	}
	return out
}

// maxSteps of a resume are told of; a guest may name as many as it likes.
const maxSteps = 64

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
	n, err := clone.Allocated(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return n, err
}

// memoryOf gives the memory that only this process has: its anonymous pages, also
// those that it wrote over shared ones, in memory or swapped out. "Private" of
// the kernel would count a template's pages to the only sandbox that uses them.
// What else is resident is shared. A process that is gone has none, and neither has
// one that may not be looked at.
func memoryOf(pid int) (private, shared int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH), errors.Is(err, fs.ErrPermission):
		return 0, 0, nil
	case err != nil:
		return 0, 0, err
	}
	kB := map[string]int64{}
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch name := string(f[0]); name {
		case "Rss:", "Anonymous:", "Swap:":
			if kB[name], err = strconv.ParseInt(string(f[1]), 10, 64); err != nil {
				return 0, 0, fmt.Errorf("smaps_rollup: %w", err)
			}
		}
	}
	return (kB["Anonymous:"] + kB["Swap:"]) << 10, (kB["Rss:"] - kB["Anonymous:"]) << 10, nil
}
