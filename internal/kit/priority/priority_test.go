package priority

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSetChangesAProcess(t *testing.T) {
	cmd := exec.Command("sleep", "60")
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
	if err := Set(1<<22+1, 7); err == nil {
		t.Error("Set on no process succeeded")
	}
}
