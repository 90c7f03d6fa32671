package priority

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

var first atomic.Bool

// First lets all threads of this process, also later ones, run before every ordinary
// one: whoever wakes them waits for no time slice of others. What this process starts
// is to be started by Ordinary.
func First() error {
	for done := map[string]bool{}; ; {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		began := len(done)
		for _, t := range tasks {
			if done[t.Name()] {
				continue
			}
			done[t.Name()] = true
			tid, err := strconv.Atoi(t.Name())
			if err == nil {
				err = schedule(tid, unix.SCHED_RR)
			}
			if err != nil && !errors.Is(err, unix.ESRCH) { // it has ended
				return err
			}
		}
		if len(done) == began { // no thread that one of before began
			first.Store(true)
			return nil
		}
	}
}

// Ordinary calls f on a thread of ordinary priority, which what f starts inherits.
func Ordinary(f func() error) error {
	if !first.Load() {
		return f()
	}
	runtime.LockOSThread() // never unlocked where it could not be set back: the thread ends
	if err := schedule(0, unix.SCHED_NORMAL); err != nil {
		return err
	}
	err := f()
	if schedule(0, unix.SCHED_RR) == nil {
		runtime.UnlockOSThread()
	}
	return err
}

func schedule(tid int, policy uint32) error {
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy}
	if policy == unix.SCHED_RR {
		attr.Priority = 1
	}
	return os.NewSyscallError("sched_setattr", unix.SchedSetAttr(tid, &attr, 0))
}
