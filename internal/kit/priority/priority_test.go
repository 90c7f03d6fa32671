package priority

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSetChangesAProcess(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if err := Set(cmd.Process.Pid, 7); err != nil {
		t.Fatal(err)
	}
	// The system call gives 20 - nice.
	if got, err := unix.Getpriority(unix.PRIO_PROCESS, cmd.Process.Pid); err != nil || got != 13 {
		t.Errorf("Getpriority = %d, %v, want 13", got, err)
	}
	group, err := os.ReadFile(fmt.Sprintf("/proc/%d/autogroup", cmd.Process.Pid))
	if err == nil && !strings.HasSuffix(string(group), " nice 7\n") {
		t.Errorf("its session is %q", group)
	}
	if err := Set(1<<22+1, 7); err == nil {
		t.Error("Set on no process succeeded")
	}
}
