package memimage

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// fill makes a memory with data at a few places, among them its last page.
func fill(t *testing.T, size int64) (*os.File, []byte) {
	t.Helper()
	mem, err := New("test", size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	want := make([]byte, size)
	for _, at := range []int64{0, 3 * page, 1<<20 - page, size - page} {
		if _, err := rand.Read(want[at : at+page]); err != nil {
			t.Fatal(err)
		}
	}
	// Zero pages that were written are data to the memfd and holes to the file.
	if _, err := mem.WriteAt(want[:2<<20], 0); err != nil {
		t.Fatal(err)
	}
	if _, err := mem.WriteAt(want[size-page:], size-page); err != nil {
		t.Fatal(err)
	}
	return mem, want
}

func TestSaveAndLoadKeepEveryByteAndNoZeroPage(t *testing.T) {
	mem, want := fill(t, 8<<20)
	path := filepath.Join(t.TempDir(), "memory.img")
	if err := Save(mem, path); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	if disk := st.Blocks * 512; disk > 64<<10 {
		t.Errorf("the file takes %d bytes on disk for 4 pages of data", disk)
	}
	loaded, err := Load("test", path)
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	got := make([]byte, len(want))
	if _, err := loaded.ReadAt(got, 0); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("the loaded memory differs from the saved one")
	}
}

func TestLoadedMemoryCannotBeChanged(t *testing.T) {
	mem, _ := fill(t, 4<<20)
	path := filepath.Join(t.TempDir(), "memory.img")
	if err := Save(mem, path); err != nil {
		t.Fatal(err)
	}
	cache := NewCache("test")
	defer cache.Close()
	loaded, err := cache.Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := cache.Open(context.Background(), path)
	if err != nil || again != loaded {
		t.Errorf("a second Open = %v, %v, want the same file", again, err)
	}
	if _, err := loaded.WriteAt([]byte{1}, 0); err == nil {
		t.Error("a write to the sealed memory succeeded")
	}
	if err := loaded.Truncate(1); err == nil {
		t.Error("shrinking the sealed memory succeeded")
	}
	if _, err := unix.Mmap(int(loaded.Fd()), 0, page, unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		t.Error("a shared writable mapping of the sealed memory succeeded")
	}
	private, err := unix.Mmap(int(loaded.Fd()), 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatalf("a private mapping failed: %v", err)
	}
	private[0]++ // a private copy
	_ = unix.Munmap(private)
}

func TestSaveLeavesNothingOnError(t *testing.T) {
	mem, _ := fill(t, 4<<20)
	path := filepath.Join(t.TempDir(), "no-such-folder", "memory.img")
	if err := Save(mem, path); err == nil {
		t.Error("Save into a folder that does not exist succeeded")
	}
	taken := filepath.Join(t.TempDir(), "memory.img")
	if err := os.WriteFile(taken, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Save(mem, taken); err == nil {
		t.Error("Save over an existing file succeeded")
	}
	if got, _ := os.ReadFile(taken); string(got) != "mine" {
		t.Errorf("the existing file was changed to %q", got)
	}
}
