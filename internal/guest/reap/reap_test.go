package reap

import (
	"context"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestStatusesGoToTheirOwners(t *testing.T) {
	orphans := make(chan int, 100)
	table := New(func(pid int, _ unix.WaitStatus) { orphans <- pid })
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := table.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer cancel()
	var children sync.WaitGroup
	for i := range 60 {
		children.Go(func() { child(t, table, i%30) })
	}
	children.Wait()

	// A shell that leaves a process behind, which ends as our orphan.
	out, err := exec.Command("sh", "-c", "sleep 0.1 >/dev/null & echo $!").Output()
	if err != nil && !errors.Is(err, unix.ECHILD) {
		t.Fatal(err)
	}
	want := strings.TrimSpace(string(out))
	for late := time.After(20 * time.Second); ; {
		select {
		case pid := <-orphans:
			if strconv.Itoa(pid) == want {
				return
			}
		case <-late:
			t.Fatalf("orphan %s was not collected", want)
		}
	}
}

func child(t *testing.T, table *Table, code int) {
	cmd := exec.Command("sh", "-c", "exit "+strconv.Itoa(code))
	if err := table.Start(cmd); err != nil {
		t.Error(err)
		return
	}
	_ = table.Wait(cmd)
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("got exit code %d, want %d", got, code)
	}
}
