package sandbox

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"pandastack/api"
	"pandastack/internal/guestproto"
)

func TestGuestUsageMakesSense(t *testing.T) {
	got := *guestUsage(guestproto.Stats{MemTotal: 10, MemAvailable: 50, DiskTotal: 10, DiskFree: -5, CPUSeconds: -1, Uptime: -1, Processes: -1})
	want := api.GuestUsage{MemoryTotalBytes: 10, MemoryAvailableBytes: 10, DiskTotalBytes: 10, DiskUsedBytes: 10}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestPrivateMemory(t *testing.T) {
	debug.FreeOSMemory() // what other tests have left is not to go meanwhile
	before, _, err := memoryOf(os.Getpid())
	if err != nil || before == 0 {
		t.Fatalf("%d, %v", before, err)
	}
	const more = 64 << 20
	block := make([]byte, more)
	for i := range block {
		block[i] = 1 // a page counts once it was written
	}
	after, _, err := memoryOf(os.Getpid())
	if err != nil || after-before < more/2 {
		t.Errorf("%d bytes more after writing %d, %v", after-before, len(block), err)
	}
	if n, _, err := memoryOf(1 << 22); n != 0 || err != nil {
		t.Errorf("a process that is gone: %d, %v", n, err)
	}
}

func TestAllocated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sparse")
	if n, err := allocated(path); n != 0 || err != nil {
		t.Errorf("no file: %d, %v", n, err)
	}
	if err := os.WriteFile(path, make([]byte, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<30); err != nil {
		t.Fatal(err)
	}
	if n, err := allocated(path); n < 8192 || n > 1<<20 || err != nil {
		t.Errorf("a sparse file takes %d, %v", n, err)
	}
}
