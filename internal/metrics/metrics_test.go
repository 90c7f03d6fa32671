package metrics

import (
	"bufio"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"pandastack/api"
)

// scrape gives a metric's value by its line up to the value.
func scrape(t *testing.T, m *Metrics) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	values := map[string]string{}
	for lines := bufio.NewScanner(w.Body); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok && !strings.HasPrefix(name, "#") {
			values[name] = value
		}
	}
	return values
}

func TestCounts(t *testing.T) {
	m, err := New("v1", "tcg")
	if err != nil {
		t.Fatal(err)
	}
	err = m.Watch(func() Load {
		return Load{ByStatus: map[string]int{"running": 2}, ReservedBytes: 3, LimitBytes: 4, PoolReady: 5, PoolWanted: 6}
	})
	if err != nil {
		t.Fatal(err)
	}
	m.SandboxStarted(api.Start{Kind: "restored", TotalMS: 200, Steps: []api.Step{{Name: "vmm", MS: 40}}})
	m.SandboxNotStarted("sandbox.capacity")
	m.SandboxFailed()
	m.PoolFilled("ok", time.Second)
	m.CellDone("ok", 20*time.Millisecond)
	m.ExecDone("exited", time.Second)
	m.RequestDone("GET /v1/sandboxes/{id}", 200, time.Millisecond)
	got := scrape(t, m)
	for name, want := range map[string]string{
		`pandastack_sandbox_start_seconds_sum{kind="restored"}`:                               "0.2",
		`pandastack_sandbox_start_step_seconds_bucket{kind="restored",step="vmm",le="0.05"}`:  "1",
		`pandastack_sandbox_start_step_seconds_bucket{kind="restored",step="vmm",le="0.025"}`: "0",
		`pandastack_sandbox_start_failures_total{code="sandbox.capacity"}`:                    "1",
		`pandastack_pool_fill_seconds_count{outcome="ok"}`:                                    "1",
		`pandastack_pool_ready`:                                 "5",
		`pandastack_pool_wanted`:                                "6",
		`pandastack_sandbox_failures_total`:                     "1",
		`pandastack_cell_seconds_count{status="ok"}`:            "1",
		`pandastack_exec_seconds_sum{outcome="exited"}`:         "1",
		`pandastack_sandboxes{status="running"}`:                "2",
		`pandastack_sandbox_memory_reserved_bytes`:              "3",
		`pandastack_sandbox_memory_limit_bytes`:                 "4",
		`pandastack_build_info{accelerator="tcg",version="v1"}`: "1",
	} {
		if value, ok := got[name]; value != want {
			t.Errorf("%s is %q (there: %v), want %s", name, value, ok, want)
		}
	}
}

func TestStepNamesAreBounded(t *testing.T) {
	m, err := New("v1", "tcg")
	if err != nil {
		t.Fatal(err)
	}
	for n := range 10 * maxStepNames {
		m.SandboxStarted(api.Start{Kind: "restored", Steps: []api.Step{{Name: fmt.Sprint("step ", n), MS: 1}}})
	}
	series := 0
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, sandboxStartSteps+"_count") {
			series++
		}
	}
	if series != maxStepNames+1 {
		t.Errorf("%d series, want %d", series, maxStepNames+1)
	}
}

func TestEveryMetricIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	m, err := New("v1", "tcg")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Watch(func() Load { return Load{ByStatus: map[string]int{"running": 1}} }); err != nil {
		t.Fatal(err)
	}
	m.SandboxStarted(api.Start{Kind: "ready", Steps: []api.Step{{Name: "x"}}})
	m.SandboxNotStarted("x")
	m.PoolFilled("ok", 0)
	m.CellDone("ok", 0)
	m.ExecDone("exited", 0)
	m.RequestDone("none", 404, 0)
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	ours := 0
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "pandastack_") {
			continue
		}
		ours++
		if !strings.Contains(string(text), "`"+f.GetName()+"`") {
			t.Errorf("docs/metrics.md does not name %s", f.GetName())
		}
	}
	if want := strings.Count(string(text), "`pandastack_"); ours != want {
		t.Errorf("%d metrics are there and %d in docs/metrics.md", ours, want)
	}
}
