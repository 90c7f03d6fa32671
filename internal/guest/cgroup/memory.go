package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Memory is what a group used, in bytes. What the kernel does not tell is 0.
type Memory struct {
	Peak  int64
	Limit int64 // of the group's tree: groups share it
	// Killed counts the group's processes that the kernel ended because memory had run out.
	Killed int64
}

// Memory reads the figures, which stay until Remove.
func (g *Group) Memory() Memory {
	if g == nil {
		return Memory{}
	}
	return Memory{
		Peak:   number(read(g.path, "memory.peak")),
		Limit:  number(read(filepath.Dir(g.path), "memory.max")),
		Killed: entry(read(g.path, "memory.events"), "oom_kill"),
	}
}

func read(dir, file string) string {
	text, _ := os.ReadFile(filepath.Join(dir, file)) // missing without that controller
	return string(text)
}

// number is 0 for "max", too.
func number(text string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n
}

// entry finds a number in lines of a name and a number.
func entry(text, name string) int64 {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return number(value)
		}
	}
	return 0
}
