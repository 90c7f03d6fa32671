// Package priority sets the nice value of whole processes.
package priority

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Set gives every thread of a process the nice value, which threads started later
// inherit, and its session, if it leads one, among all sessions: where the kernel
// groups processes by session, a nice value counts only within one. Lowering it needs
// privileges.
func Set(pid, nice int) error {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range tasks {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		// A thread may have ended since.
		if err := unix.Setpriority(unix.PRIO_PROCESS, tid, nice); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("nice of thread %d: %w", tid, err))
		}
	}
	return errors.Join(append(errs, setSession(pid, nice))...)
}

func setSession(pid, nice int) error {
	if session, err := unix.Getsid(pid); err != nil || session != pid {
		return nil // it shares one, which is not its own to slow down
	}
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/autogroup", pid), os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a kernel without such groups
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(strconv.Itoa(nice))
	return err
}
