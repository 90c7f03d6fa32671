//go:build vm

package e2e

import (
	"encoding/json"
	"fmt"
	"testing"

	"pandastack/test/harness"
)

// TestSandboxesFromReadyMachines creates sandboxes from machines that wait, which
// must be no twins, and kills the server: what waited is ended by the next one,
// what was somebody's goes on.
func TestSandboxesFromReadyMachines(t *testing.T) {
	dir := harness.NewDir(t)
	s := harness.Start(t, dir, "PANDASTACK_POOL_MAX=1")
	var seen [2]map[string]any
	var box, kernel string
	for i := range seen {
		awaitReady(t, s, 1)
		got := s.NewSandbox(t)
		if got.Start.Kind != "ready" {
			t.Errorf("start: got %s, want ready", got.Start.Kind)
		}
		box, kernel = got.ID, s.NewContext(t, got.ID)
		assertClock(t, s, box, kernel)
		if err := json.Unmarshal([]byte(s.Run(t, box, kernel, twinCell).Stdout), &seen[i]); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range seen[0] {
		if value == "" || value == seen[1][name] {
			t.Errorf("%s is %v in both", name, value)
		}
	}
	s.Run(t, box, kernel, "x = 41")
	awaitReady(t, s, 1)
	s.Kill(t)

	s = harness.Start(t, dir)
	if got := s.Text(t, box, kernel, "x + 1"); got != "42" {
		t.Errorf("x + 1 in the sandbox that was there: %s, want 42", got)
	}
	awaitReady(t, s, 0)
}

func awaitReady(t *testing.T, s *harness.Server, n int) {
	t.Helper()
	harness.Await(t, soon, fmt.Sprintf("%d machines to wait ready", n), func() error {
		health, err := s.Health(t.Context())
		if err == nil && health.Ready != n {
			err = fmt.Errorf("%d of %d wait", health.Ready, health.ReadyWanted)
		}
		return err
	})
}
