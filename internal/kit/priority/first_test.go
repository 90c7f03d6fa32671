package priority

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// policies are the scheduling policies of this process's threads, each named once.
func policies(t *testing.T) map[uint32]bool {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	found := map[uint32]bool{}
	for _, task := range tasks {
		tid := 0
		for _, digit := range task.Name() {
			tid = 10*tid + int(digit-'0')
		}
		if attr, err := unix.SchedGetAttr(tid, 0); err == nil {
			found[attr.Policy] = true
		}
	}
	return found
}

func TestWhatAFirstProcessStartsIsOrdinary(t *testing.T) {
	if err := First(); err != nil {
		t.Skipf("this host gives no such priority: %v", err)
	}
	defer first.Store(false)
	for range 2 * runtime.GOMAXPROCS(0) { // make threads
		go func() { runtime.LockOSThread(); select {} }()
	}
	runtime.Gosched()
	if got := policies(t); !got[unix.SCHED_RR] || len(got) != 1 {
		t.Errorf("threads have the policies %v, want SCHED_RR alone", got)
	}
	var out []byte
	err := Ordinary(func() (err error) {
		out, err = exec.Command("sh", "-c", "sed -n 's/^policy *: *//p' /proc/self/sched; cut -d' ' -f41 /proc/self/stat").Output()
		return err
	})
	if fields := strings.Fields(string(out)); err != nil || fields[len(fields)-1] != "0" {
		t.Errorf("a child of it has policy %q, %v, want 0", out, err)
	}
	if got := policies(t); len(got) != 1 {
		t.Errorf("afterwards threads have the policies %v", got)
	}
}
