//go:build vm

// Package e2e tests the program as its users meet it: the real server, real
// virtual machines, and the ways in which all of them can be killed.
package e2e

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"pandastack/api"
	"pandastack/test/harness"
)

const (
	manySandboxes = 50
	atOnce        = 8
)

// TestManySandboxes creates, uses and removes many, and looks for what is left.
func TestManySandboxes(t *testing.T) {
	s := harness.Start(t, harness.NewDir(t))
	if err := life(t, s, 0); err != nil { // so that the template's memory is loaded
		t.Fatal(err)
	}
	s.Clean(t)
	before, shared := s.Usage(t), sharedMemory(t)

	numbers := make(chan int)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for n := range numbers {
				if err := life(t, s, n); err != nil {
					t.Errorf("sandbox %d: %v", n, err)
				}
			}
		})
	}
	for n := range manySandboxes {
		numbers <- n
	}
	close(numbers)
	workers.Wait()

	s.Clean(t)
	assertNoGrowth(t, s, before, shared)
	if boxes, err := s.Sandboxes(t.Context()); err != nil || len(boxes) > 0 {
		t.Errorf("sandboxes left: %v, %v", boxes, err)
	}
}

// life is one sandbox's, from its creation to its end.
func life(t *testing.T, s *harness.Server, n int) error {
	box, err := s.CreateSandbox(t.Context(), api.CreateSandbox{})
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	kernel, err := s.CreateContext(t.Context(), box.ID, api.CreateContext{})
	if err != nil {
		return fmt.Errorf("create a context: %w", err)
	}
	ex, err := s.Execute(t.Context(), box.ID, kernel.ID, api.Execute{Code: fmt.Sprintf("print(%d + 1)", n)})
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if want := fmt.Sprintln(n + 1); ex.Stdout != want {
		return fmt.Errorf("got %q, want %q", ex.Stdout, want)
	}
	return s.DeleteSandbox(t.Context(), box.ID)
}

// What a server may hold more than before: connections of clients that idle.
const (
	spareFDs    = 2*atOnce + 4
	spareMemfd  = 4 << 20  // the template's holes that guests have touched stay filled
	spareShared = 96 << 20 // of the whole host, where others live too
)

func assertNoGrowth(t *testing.T, s *harness.Server, before harness.Usage, shared int64) {
	t.Helper()
	after := s.Usage(t)
	if after.FDs > before.FDs+spareFDs {
		t.Errorf("%d descriptors, %d before", after.FDs, before.FDs)
	}
	if after.Memfds != before.Memfds || after.Shared > before.Shared+spareMemfd {
		t.Errorf("%d memfds of %d bytes, before %d of %d", after.Memfds, after.Shared, before.Memfds, before.Shared)
	}
	harness.Await(t, time.Minute, "shared memory to be given back", func() error {
		if now := sharedMemory(t); now > shared+spareShared {
			return fmt.Errorf("%d MB, before %d MB", now>>20, shared>>20)
		}
		return nil
	})
}

// sharedMemory is the host's, in bytes.
func sharedMemory(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	return meminfo(t, string(text), "Shmem")
}
