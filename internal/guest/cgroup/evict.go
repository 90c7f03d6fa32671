package cgroup

import (
	"os"
	"path/filepath"
	"strings"
)

// evict moves the processes of the group into a sibling for those that outlive
// their group: a group with children may hold no processes itself.
func (g *Group) evict() {
	rest := filepath.Join(filepath.Dir(g.path), "rest")
	if err := os.Mkdir(rest, 0o755); err != nil && !os.IsExist(err) {
		return
	}
	pids, err := os.ReadFile(filepath.Join(g.path, "cgroup.procs"))
	if err != nil {
		return
	}
	for pid := range strings.FieldsSeq(string(pids)) {
		_ = os.WriteFile(filepath.Join(rest, "cgroup.procs"), []byte(pid), 0)
	}
}
