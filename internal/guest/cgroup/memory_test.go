package cgroup

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMemory(t *testing.T) {
	tree := t.TempDir()
	group := filepath.Join(tree, "kernel-1")
	if err := os.Mkdir(group, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		filepath.Join(tree, "memory.max"):     "1000\n",
		filepath.Join(group, "memory.peak"):   "900\n",
		filepath.Join(group, "memory.events"): "low 0\nmax 7\noom 2\noom_kill 3\noom_group_kill 4\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := (&Group{path: group}).Memory(), (Memory{Peak: 900, Limit: 1000, Killed: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := (&Group{path: t.TempDir()}).Memory(); got != (Memory{}) {
		t.Errorf("without a memory controller: got %+v, want zeros", got)
	}
	if got := (*Group)(nil).Memory(); got != (Memory{}) {
		t.Errorf("without a group: got %+v, want zeros", got)
	}
}
