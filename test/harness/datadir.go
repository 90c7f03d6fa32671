package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// templateEnv names a data directory with a baked template in it.
const templateEnv = "PANDASTACK_TEST_DATA"

// What of a data directory makes a template ready.
var (
	imageFolders = []string{"images", "boot"}
	warmFolders  = []string{"warm", "templates"}
)

// NewDir gives a data directory with the template ready to start from. When the
// test ends, nothing of it may be left running or mounted.
func NewDir(t testing.TB) string { return newDir(t, append(imageFolders, warmFolders...)) }

// NewUnwarmedDir gives one whose template has its disk image but no warm
// snapshot, so that the first use bakes one.
func NewUnwarmedDir(t testing.TB) string { return newDir(t, imageFolders) }

// EmptyDir gives a data directory without a template.
func EmptyDir(t testing.TB) string { return newDir(t, nil) }

func newDir(t testing.TB, folders []string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if len(folders) > 0 && os.Getenv(templateEnv) == "" {
		t.Fatalf("set %s to a data directory in which the template is built", templateEnv)
	}
	for _, name := range folders {
		link(t, filepath.Join(os.Getenv(templateEnv), name), filepath.Join(dir, name))
	}
	watchDir(t, dir)
	return dir
}

// link gives a folder a second name, file by file: the server never changes a
// finished template's files. Across file systems it copies.
func link(t testing.TB, from, to string) {
	t.Helper()
	if exec.Command("cp", "-al", from, to).Run() == nil {
		return
	}
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", "--sparse=always", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copy the template: %v: %s", err, out)
	}
}
