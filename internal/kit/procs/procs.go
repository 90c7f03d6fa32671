// Package procs finds processes by their command line and ends them without
// ever hitting another one that got the same pid.
package procs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Kill ends every process whose arguments match and returns when they are
// gone, with their number. A process that was already dead counts as gone.
func Kill(ctx context.Context, match func(args []string) bool) (int, error) {
	killed := 0
	pids, err := all()
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, pid := range pids {
		hit, err := killOne(ctx, pid, match)
		if hit {
			killed++
		}
		errs = append(errs, err)
	}
	return killed, errors.Join(errs...)
}

func killOne(ctx context.Context, pid int, match func([]string) bool) (bool, error) {
	if !match(Args(pid)) {
		return false, nil
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false, nil // gone
	}
	defer unix.Close(fd)
	if !match(Args(pid)) { // the descriptor may be a successor's
		return false, nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return false, fmt.Errorf("end process %d: %w", pid, err)
	}
	return true, waitGone(ctx, fd, pid)
}

// waitGone waits until the process of a pidfd has ended (its parent may not
// have reaped it yet).
func waitGone(ctx context.Context, fd, pid int) error {
	for ctx.Err() == nil {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 100)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if n > 0 {
			return nil
		}
	}
	return fmt.Errorf("process %d does not end: %w", pid, ctx.Err())
}

// Args gives a process's arguments, nil when it is gone or a kernel thread.
func Args(pid int) []string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil || len(text) == 0 {
		return nil
	}
	var args []string
	for _, a := range bytes.Split(bytes.TrimSuffix(text, []byte{0}), []byte{0}) {
		args = append(args, string(a))
	}
	return args
}

func all() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
