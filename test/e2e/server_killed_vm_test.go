//go:build vm

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pandastack/api"
	"pandastack/test/harness"
)

// soon is a deadline for what a quick machine does in seconds.
const soon = 2 * time.Minute

// TestServerKilledDuringCreate kills the server at different moments of a
// creation. The sandbox that was acknowledged before lives on each time.
func TestServerKilledDuringCreate(t *testing.T) {
	dir := harness.NewDir(t)
	s := harness.Start(t, dir)
	kept := s.NewSandbox(t).ID
	kernel := s.NewContext(t, kept)
	s.Run(t, kept, kernel, "x = 41")

	for _, moment := range []struct {
		name string
		come func([]harness.Process, []string) bool
	}{
		{"run folder", func(_ []harness.Process, dirs []string) bool { return len(dirs) > 1 }},
		{"shim", func(ps []harness.Process, _ []string) bool { return count(ps, harness.Process.IsShim) > 1 }},
		{"VMM", func(ps []harness.Process, _ []string) bool { return count(ps, harness.Process.IsVMM) > 1 }},
	} {
		t.Log("kill the server when the new sandbox has its", moment.name)
		created := make(chan error, 1)
		go func(s *harness.Server) {
			_, err := s.CreateSandbox(t.Context(), api.CreateSandbox{})
			created <- err
		}(s)
		harness.Await(t, soon, "the "+moment.name, func() error {
			if !moment.come(harness.Processes(dir), runFolders(t, dir)) {
				return errors.New("not yet")
			}
			return nil
		})
		s.Kill(t)
		if err := <-created; err == nil {
			t.Fatal("the creation was quicker than the kill")
		}
		s = harness.Start(t, dir)
		assertOnly(t, s, kept)
		if got := s.Text(t, kept, kernel, "x + 1"); got != "42" {
			t.Errorf("the kept sandbox's x + 1 is %s", got)
		}
	}
}

func count(ps []harness.Process, is func(harness.Process) bool) (n int) {
	for _, p := range ps {
		if is(p) {
			n++
		}
	}
	return n
}

func runFolders(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "runs"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// assertOnly wants these sandboxes to be all there is of the data directory.
func assertOnly(t *testing.T, s *harness.Server, ids ...string) {
	t.Helper()
	boxes, err := s.Sandboxes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, b := range boxes {
		listed = append(listed, b.ID)
		if b.Status != "running" {
			t.Errorf("sandbox %s is %s: %s", b.ID, b.Status, b.Failure)
		}
	}
	slices.Sort(ids)
	if slices.Sort(listed); !slices.Equal(listed, ids) {
		t.Errorf("sandboxes %v, want %v", listed, ids)
	}
	if got := runFolders(t, s.Dir); !slices.Equal(got, ids) {
		t.Errorf("run folders %v, want %v", got, ids)
	}
	harness.Await(t, soon, "one shim and one VMM each", func() error {
		ps := harness.Processes(s.Dir)
		if len(ps) != 1+2*len(ids) || count(ps, harness.Process.IsShim) != len(ids) || count(ps, harness.Process.IsVMM) != len(ids) {
			return fmt.Errorf("for %d sandboxes there are %v", len(ids), ps)
		}
		return nil
	})
}

// TestServerKilledDuringRun kills it under a cell. The cell goes on, and its
// whole output is there for whoever asks again by its id.
func TestServerKilledDuringRun(t *testing.T) {
	dir := harness.NewDir(t)
	s := harness.Start(t, dir)
	box := s.NewSandbox(t).ID
	kernel := s.NewContext(t, box)
	cell := api.Execute{ID: "the-cell", Code: "import time\nopen('/tmp/begun', 'w').close()\nfor n in range(100):\n    print(n, flush=True)\n    time.sleep(0.1)\n'end'"}
	ran := make(chan error, 1)
	go func(s *harness.Server) {
		_, err := s.Execute(t.Context(), box, kernel, cell)
		ran <- err
	}(s)
	s.AwaitFile(t, box, "/tmp/begun")
	s.Kill(t)
	if err := <-ran; err == nil {
		t.Fatal("the cell was quicker than the kill")
	}

	s = harness.Start(t, dir)
	assertOnly(t, s, box)
	ex, err := s.Execute(t.Context(), box, kernel, cell)
	if err != nil {
		t.Fatalf("ask again for the cell: %v", err)
	}
	want := ""
	for n := range 100 {
		want += fmt.Sprintln(n)
	}
	if ex.Status != "ok" || ex.Stdout != want || len(ex.Results) != 1 {
		t.Errorf("the cell: %s, stdout %q, %d results", ex.Status, ex.Stdout, len(ex.Results))
	}
	if got := s.Text(t, box, kernel, "n"); got != "99" {
		t.Errorf("n is %s after the cell, want 99", got)
	}
}

// TestServerKilledDuringBuild kills it while it bakes the warm snapshot.
func TestServerKilledDuringBuild(t *testing.T) {
	dir := harness.NewUnwarmedDir(t)
	s := harness.Start(t, dir)
	created := make(chan error, 1)
	go func(s *harness.Server) {
		_, err := s.CreateSandbox(t.Context(), api.CreateSandbox{})
		created <- err
	}(s)
	harness.Await(t, soon, "the template's machine to boot", func() error {
		if count(harness.Processes(dir), harness.Process.IsVMM) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	s.Kill(t)
	if err := <-created; err == nil {
		t.Fatal("the creation succeeded without a template")
	}

	s = harness.Start(t, dir)
	if warm, err := os.ReadDir(filepath.Join(dir, "warm")); err != nil || len(warm) > 0 {
		t.Errorf("a killed build left %v, %v", warm, err)
	}
	s.Clean(t)
	box, err := createPatiently(t, s)
	if err != nil {
		t.Fatalf("create after the killed build: %v", err)
	}
	if got := s.Text(t, box.ID, s.NewContext(t, box.ID), "6 * 7"); got != "42" {
		t.Errorf("6 * 7 is %s", got)
	}
	assertOnly(t, s, box.ID)
}

// createPatiently waits for a template that is being built, as the server asks.
func createPatiently(t *testing.T, s *harness.Server) (box api.Sandbox, err error) {
	t.Helper()
	harness.Await(t, 8*time.Minute, "the template", func() error {
		box, err = s.CreateSandbox(t.Context(), api.CreateSandbox{})
		if codeOf(err) == api.CodeTemplateBuilding {
			return err
		}
		return nil
	})
	return box, err
}
