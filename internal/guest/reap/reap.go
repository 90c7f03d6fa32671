// Package reap collects orphans for a process that is init or a subreaper,
// without taking the exit status of children that somebody waits for.
package reap

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"

	"pandastack/internal/kit/priority"
)

// Table knows which children have an owner. All children must be started with
// Start and waited for with Wait.
type Table struct {
	mu     sync.Mutex
	owned  map[int]bool
	freed  *sync.Cond // an owned child was waited for
	orphan func(pid int, status unix.WaitStatus)
}

// New makes a table; orphan, if not nil, hears of every orphan collected.
func New(orphan func(pid int, status unix.WaitStatus)) *Table {
	t := &Table{owned: map[int]bool{}, orphan: orphan}
	t.freed = sync.NewCond(&t.mu)
	return t
}

// Start starts cmd and remembers that its child has an owner.
func (t *Table) Start(cmd *exec.Cmd) error {
	t.mu.Lock() // until the child is known, Run must not see it end
	defer t.mu.Unlock()
	if err := priority.Ordinary(cmd.Start); err != nil {
		return err
	}
	t.owned[cmd.Process.Pid] = true
	return nil
}

// Wait waits for a child of Start. It must be called soon after the child ends.
func (t *Table) Wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.owned, cmd.Process.Pid)
	t.freed.Broadcast()
	return err
}

// Run makes this process the one that orphans come to and collects them until
// ctx ends.
func (t *Table) Run(ctx context.Context) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	defer signal.Stop(ended)
	for {
		t.collect()
		select {
		case <-ctx.Done():
			return nil
		case <-ended:
		}
	}
}

// collect takes every orphan that has ended by now. It looks before it takes:
// an ended child with an owner is left until the owner has it.
func (t *Table) collect() {
	for {
		pid, ok := peek()
		if !ok {
			return
		}
		t.mu.Lock()
		owned := t.owned[pid]
		for t.owned[pid] {
			t.freed.Wait()
		}
		t.mu.Unlock()
		if owned {
			continue
		}
		var status unix.WaitStatus
		if got, err := unix.Wait4(pid, &status, unix.WNOHANG, nil); err == nil && got == pid && t.orphan != nil {
			t.orphan(pid, status)
		}
	}
}

// peek says which child has ended, leaving it a zombie.
func peek() (pid int, ok bool) {
	for {
		var info siginfo
		err := unix.Waitid(unix.P_ALL, 0, info.raw(), unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return int(info.pid), err == nil && info.pid != 0
	}
}
