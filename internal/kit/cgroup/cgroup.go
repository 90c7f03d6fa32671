// Package cgroup bounds the memory and number of tasks of processes, in the
// unified hierarchy (v2) or the separate ones (v1), whichever the host has.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const mountPoint = "/sys/fs/cgroup"

// parent is the folder under which all groups are made.
const parent = "pandastack"

// Limits of a group; zero means none.
type Limits struct {
	MemoryBytes int64
	Tasks       int
}

// Group is one control group; nil is a group that does nothing, for hosts
// where none can be made.
type Group struct{ dirs []string }

// Create makes the group name. Where the host has no cgroup file system that
// this process may write, it returns nil and the reason.
func Create(name string, limits Limits) (*Group, error) {
	g := &Group{}
	files := limitFiles(limits)
	var errs []error
	for dir, values := range files {
		path := filepath.Join(dir, parent, name)
		if err := makeGroup(dir, path, values); err != nil {
			errs = append(errs, err)
			continue
		}
		g.dirs = append(g.dirs, path)
	}
	if len(g.dirs) == 0 {
		return nil, fmt.Errorf("cgroup: %w", errors.Join(errs...))
	}
	return g, nil
}

// limitFiles maps each hierarchy's root to the files to write in the group.
func limitFiles(l Limits) map[string]map[string]string {
	memory, tasks := strconv.FormatInt(l.MemoryBytes, 10), strconv.Itoa(l.Tasks)
	if unified() {
		return map[string]map[string]string{mountPoint: {"memory.max": memory, "pids.max": tasks}}
	}
	return map[string]map[string]string{
		filepath.Join(mountPoint, "memory"): {"memory.limit_in_bytes": memory},
		filepath.Join(mountPoint, "pids"):   {"pids.max": tasks},
	}
}

func unified() bool {
	_, err := os.Stat(filepath.Join(mountPoint, "cgroup.controllers"))
	return err == nil
}

func makeGroup(root, path string, values map[string]string) error {
	if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
		return err // not mounted
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if unified() {
		for _, dir := range []string{root, filepath.Dir(path)} {
			_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+memory +pids"), 0o644)
		}
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	for file, value := range values {
		if value == "0" {
			continue
		}
		if err := os.WriteFile(filepath.Join(path, file), []byte(value), 0o644); err != nil {
			return errors.Join(err, os.Remove(path))
		}
	}
	return nil
}

// Add moves a process, with its threads, into the group.
func (g *Group) Add(pid int) error {
	if g == nil {
		return nil
	}
	for _, dir := range g.dirs {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes the group, whose processes must have ended. The kernel may
// still hold on to it for a moment after the last one was reaped.
func (g *Group) Remove() error {
	if g == nil {
		return nil
	}
	var errs []error
	for _, dir := range g.dirs {
		errs = append(errs, removeDir(dir))
	}
	return errors.Join(errs...)
}

// Remove removes what is left of the group name.
func Remove(name string) error {
	g := &Group{}
	for dir := range limitFiles(Limits{}) {
		g.dirs = append(g.dirs, filepath.Join(dir, parent, name))
	}
	return g.Remove()
}

func removeDir(dir string) error {
	const tries = 100
	for range tries {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("cgroup: %s is still in use", dir)
}
