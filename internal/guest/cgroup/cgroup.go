// Package cgroup keeps user processes in control groups (v2) below one that
// leaves memory and process numbers to the agent.
package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Tree is the group that all user processes are below. A nil Tree, where there
// are no control groups, makes nil Groups; every method of those does nothing.
type Tree struct{ dir string }

// Limits of a Tree; 0 sets none.
type Limits struct {
	Memory int64
	PIDs   int64
}

// New makes the group name below the mounted hierarchy root.
func New(root, name string, limits Limits) (*Tree, error) {
	t := &Tree{dir: filepath.Join(root, name)}
	enable(root)
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	enable(t.dir) // for the groups' own figures
	for file, n := range map[string]int64{"memory.max": limits.Memory, "pids.max": limits.PIDs} {
		path := filepath.Join(t.dir, file)
		if _, err := os.Stat(path); n == 0 || err != nil {
			continue // the kernel was built without that controller
		}
		if err := os.WriteFile(path, strconv.AppendInt(nil, n, 10), 0); err != nil {
			return nil, fmt.Errorf("cgroup: %w", err)
		}
	}
	return t, nil
}

// enable hands the controllers that exist to the children, one by one so that
// a missing one does not cost the other.
func enable(root string) {
	for _, c := range []string{"+memory", "+pids"} {
		_ = os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte(c), 0)
	}
}

// Group holds one kernel's or one call's processes.
type Group struct {
	path string
	dir  *os.File
}

// New makes a group. Its owner calls Remove.
func (t *Tree) New(name string) (*Group, error) {
	if t == nil {
		return nil, nil
	}
	path := filepath.Join(t.dir, name)
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	dir, err := os.Open(path)
	if err != nil {
		_ = os.Remove(path)
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	return &Group{path: path, dir: dir}, nil
}

// FD is the group's folder, to start a process right in it.
func (g *Group) FD() (fd int, ok bool) {
	if g == nil {
		return 0, false
	}
	return int(g.dir.Fd()), true
}

// Add moves a process into the group.
func (g *Group) Add(pid int) error {
	if g == nil {
		return nil
	}
	return g.write("cgroup.procs", strconv.Itoa(pid))
}

// Kill ends every process in the group at once.
func (g *Group) Kill() error {
	if g == nil {
		return nil
	}
	return g.write("cgroup.kill", "1")
}

func (g *Group) write(file, value string) error {
	if err := os.WriteFile(filepath.Join(g.path, file), []byte(value), 0); err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	return nil
}

// Remove gives the group up. Processes still in it move to a sibling,
// where the tree's limits hold them on.
func (g *Group) Remove() error {
	if g == nil {
		return nil
	}
	_ = g.dir.Close()
	if os.Remove(g.path) == nil {
		return nil
	}
	g.evict()
	if err := os.Remove(g.path); err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	return nil
}
