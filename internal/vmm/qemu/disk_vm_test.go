//go:build vm

package qemu

import (
	"os"
	"os/exec"
	"testing"
)

func create(t *testing.T, path string) string {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func mkfs(t *testing.T, path string) {
	t.Helper()
	if out, err := exec.Command("mke2fs", "-q", "-F", "-t", "ext4", "-J", "size=8", path).CombinedOutput(); err != nil {
		t.Fatalf("mke2fs: %v: %s", err, out)
	}
}
