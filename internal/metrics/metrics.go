// Package metrics counts what a node does and tells it to Prometheus. It
// implements the observers of the sandbox service and of the HTTP edge.
package metrics

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"pandastack/api"
)

// Buckets in seconds: from a claimed machine to an emulated one on a busy host,
// and from an empty cell to a long computation.
var (
	startBuckets = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	workBuckets  = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 5, 10, 60, 300, 1800}
)

// Metrics is a node's. Methods may be called concurrently.
type Metrics struct {
	registry *prometheus.Registry

	starts, steps, fills, cells, processes, requests *prometheus.HistogramVec
	notStarted                                       *prometheus.CounterVec
	failures                                         prometheus.Counter

	mu    sync.Mutex
	named map[string]bool // steps that have a label of their own
}

// New makes the metrics of a node of this version.
func New(version, accelerator string) (*Metrics, error) {
	m := &Metrics{
		registry:  prometheus.NewRegistry(),
		starts:    histogram(sandboxStarts, "Time from a creation's begin to a sandbox that can be used.", startBuckets, labelKind),
		steps:     histogram(sandboxStartSteps, "Time of each step of a start.", startBuckets, labelKind, labelStep),
		fills:     histogram(poolFills, "Time to make a machine ready for the pool.", startBuckets, labelOutcome),
		cells:     histogram(cells, "Time of a cell in its kernel.", workBuckets, labelStatus),
		processes: histogram(processes, "Time of a process started by exec.", workBuckets, labelOutcome),
		requests:  histogram(requests, "Time to answer an API request.", workBuckets, labelRoute, labelStatus),
		notStarted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: sandboxNotStarted, Help: "Creations that failed, by error code.",
		}, []string{labelCode}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: sandboxFailures, Help: "Sandboxes whose machine ended though nobody had asked for it.",
		}),
		named: map[string]bool{},
	}
	info := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: buildInfo, Help: "Always 1.", ConstLabels: prometheus.Labels{labelVersion: version, labelAccelerator: accelerator},
	}, func() float64 { return 1 })
	for _, c := range []prometheus.Collector{
		m.starts, m.steps, m.fills, m.cells, m.processes, m.requests, m.notStarted, m.failures, info,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := m.registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// Handler answers a scrape.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// SandboxStarted counts a start and its steps.
func (m *Metrics) SandboxStarted(start api.Start) {
	m.starts.WithLabelValues(start.Kind).Observe(start.TotalMS / 1000)
	for _, step := range start.Steps {
		m.steps.WithLabelValues(start.Kind, m.stepLabel(step.Name)).Observe(step.MS / 1000)
	}
}

// stepLabel bounds the names: some steps are named by the guest's agent.
func (m *Metrics) stepLabel(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.named[name] && len(m.named) >= maxStepNames {
		return otherStep
	}
	m.named[name] = true
	return name
}

// SandboxNotStarted counts a creation that failed.
func (m *Metrics) SandboxNotStarted(code string) { m.notStarted.WithLabelValues(code).Inc() }

// PoolFilled counts a machine made ready, or not.
func (m *Metrics) PoolFilled(outcome string, took time.Duration) {
	m.fills.WithLabelValues(outcome).Observe(took.Seconds())
}

// SandboxFailed counts a machine that ended unasked.
func (m *Metrics) SandboxFailed() { m.failures.Inc() }

// CellDone counts a cell.
func (m *Metrics) CellDone(status string, took time.Duration) {
	m.cells.WithLabelValues(status).Observe(took.Seconds())
}

// ExecDone counts a process.
func (m *Metrics) ExecDone(outcome string, took time.Duration) {
	m.processes.WithLabelValues(outcome).Observe(took.Seconds())
}

// RequestDone counts an API request. route is the pattern it matched.
func (m *Metrics) RequestDone(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Observe(took.Seconds())
}

// Load is what a node's sandboxes take together at one moment.
type Load struct {
	ByStatus      map[string]int
	ReservedBytes int64
	LimitBytes    int64 // 0: none
	PoolReady     int
	PoolWanted    int
}

// Watch asks for the load at every scrape.
func (m *Metrics) Watch(load func() Load) error {
	if err := m.registry.Register(gauges{load}); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}

// gauges are looked at when they are asked for.
type gauges struct{ load func() Load }

var (
	sandboxesDesc = prometheus.NewDesc(sandboxes, "Sandboxes by status.", []string{labelStatus}, nil)
	reservedDesc  = prometheus.NewDesc(memoryReserved, "Memory the running sandboxes are reckoned to use.", nil, nil)
	readyDesc     = prometheus.NewDesc(poolReady, "Machines that wait ready.", nil, nil)
	wantedDesc    = prometheus.NewDesc(poolWanted, "Machines that are to wait ready.", nil, nil)
	limitDesc     = prometheus.NewDesc(memoryLimit, "Memory all sandboxes may be reckoned to use; 0 is no limit.", nil, nil)
)

func (g gauges) Describe(out chan<- *prometheus.Desc) {
	out <- sandboxesDesc
	out <- reservedDesc
	out <- limitDesc
	out <- readyDesc
	out <- wantedDesc
}

func (g gauges) Collect(out chan<- prometheus.Metric) {
	load := g.load()
	for status, n := range load.ByStatus {
		out <- prometheus.MustNewConstMetric(sandboxesDesc, prometheus.GaugeValue, float64(n), status)
	}
	out <- prometheus.MustNewConstMetric(reservedDesc, prometheus.GaugeValue, float64(load.ReservedBytes))
	out <- prometheus.MustNewConstMetric(limitDesc, prometheus.GaugeValue, float64(load.LimitBytes))
	out <- prometheus.MustNewConstMetric(readyDesc, prometheus.GaugeValue, float64(load.PoolReady))
	out <- prometheus.MustNewConstMetric(wantedDesc, prometheus.GaugeValue, float64(load.PoolWanted))
}
