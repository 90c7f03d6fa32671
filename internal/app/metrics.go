package app

import (
	"pandastack/internal/httpapi"
	"pandastack/internal/metrics"
)

// openMetrics makes the node's metrics, which its services are given as their observer.
func (n *Node) openMetrics() (err error) {
	n.metrics, err = metrics.New(n.cfg.Version, n.machines.caps.Accelerator)
	return err
}

// serveMetrics answers scrapes. They need a key like every other call: what
// runs on a node is nobody else's business.
func (n *Node) serveMetrics(mux *httpapi.Mux) error {
	mux.HandleFunc("GET /metrics", n.metrics.Handler().ServeHTTP)
	return n.metrics.Watch(func() metrics.Load { return metrics.Load(n.sandboxes.Load()) })
}
