package sparse

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func allocated(t *testing.T, path string) int64 {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

func TestPunch(t *testing.T) {
	content := make([]byte, 5<<20+100) // ends inside a block
	for _, at := range []int{0, 70 << 10, 1<<20 + 4095, 3<<20 + 1, len(content) - 1} {
		content[at] = 1
	}
	path := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	before := allocated(t, path)
	for range 2 { // a second time changes nothing
		if err := Punch(path); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, content) {
			t.Fatal("the content changed")
		}
	}
	if after := allocated(t, path); after > 5*block+block {
		t.Errorf("takes %d bytes, before %d; want about five blocks", after, before)
	}
}

func TestPunchAllZeroAndEmpty(t *testing.T) {
	for _, size := range []int{0, 1, 8192} {
		path := filepath.Join(t.TempDir(), "image")
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Punch(path); err != nil {
			t.Fatal(err)
		}
		if fi, err := os.Stat(path); err != nil || fi.Size() != int64(size) {
			t.Errorf("size %v, %v; want %d", fi, err, size)
		}
	}
}
