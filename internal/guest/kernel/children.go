package kernel

import (
	"sync"

	"golang.org/x/sys/unix"
)

// children are the live kernel processes by pid. Their end is told by the
// zygote that forked them, or, after it ended itself, by the reaper of orphans.
type children struct {
	mu    sync.Mutex
	byPID map[int]*process
	early map[int]exit // of children whose fork was not answered yet
}

func newChildren() *children {
	return &children{byPID: map[int]*process{}, early: map[int]exit{}}
}

func (c *children) add(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ended := c.early[p.pid]; ended {
		delete(c.early, p.pid)
		p.setExit(e)
		return
	}
	c.byPID[p.pid] = p
}

// exited takes a zygote's notice.
func (c *children) exited(pid int, e exit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.endLocked(pid, e) {
		c.early[pid] = e
	}
}

func (c *children) endLocked(pid int, e exit) bool {
	p := c.byPID[pid]
	if p == nil {
		return false
	}
	delete(c.byPID, pid)
	p.setExit(e)
	return true
}

// Orphan tells the manager that the reaper collected a process.
func (m *Manager) Orphan(pid int, status unix.WaitStatus) {
	m.children.mu.Lock()
	defer m.children.mu.Unlock()
	m.children.endLocked(pid, exitOf(status))
}

func exitOf(status unix.WaitStatus) exit {
	e := exit{Code: status.ExitStatus()}
	if status.Signaled() {
		e.Signal = signalName(int(status.Signal()))
	}
	return e
}
