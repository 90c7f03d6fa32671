// Package app builds one node from a Config and runs it. It is the only package
// that names drivers and stores.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"syscall"
	"time"

	"pandastack/api"
	"pandastack/internal/httpapi"
	v1 "pandastack/internal/httpapi/v1"
	"pandastack/internal/kit/undo"
	"pandastack/internal/memimage"
	"pandastack/internal/metrics"
	"pandastack/internal/panda"
	"pandastack/internal/sandbox"
	"pandastack/internal/store/sqlstore"
	"pandastack/internal/template"
	"pandastack/internal/vmm"
)

// closeTime is how long a node may take to put everything away.
const closeTime = 30 * time.Second

// Node is one running server. Start makes it, Serve answers until its context
// ends, Close puts everything away; sandboxes go on without it.
type Node struct {
	cfg       Config
	data      dataDir
	log       *slog.Logger
	machines  *machines
	builder   *template.Builder
	sandboxes *sandbox.Service
	metrics   *metrics.Metrics
	server    *httpapi.Server
	listener  net.Listener
	releases  undo.Stack
}

// Start brings a node up to the point where it listens. On error nothing is left.
func Start(ctx context.Context, cfg Config, log *slog.Logger) (_ *Node, err error) {
	n := &Node{cfg: cfg, data: dataDir(cfg.DataDir), log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close(context.WithoutCancel(ctx)))
		}
	}()
	for _, step := range []func(context.Context) error{n.holdData, n.listen, n.openServices, n.openEdge} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// holdData makes this the one server of the data directory.
func (n *Node) holdData(context.Context) error {
	if err := n.data.prepare(); err != nil {
		return err
	}
	release, err := n.data.lock()
	if err != nil {
		return err
	}
	n.releases.Push(func(context.Context) error { return release() })
	return n.data.withdraw() // what a killed server left
}

// listen takes the address early, so that one that is taken is told at once.
func (n *Node) listen(ctx context.Context) error {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", n.cfg.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return &panda.Error{Code: api.CodeHostPortInUse, Message: fmt.Sprintf("the address %s is in use", n.cfg.Listen)}
	}
	if err != nil {
		return badConfig("listen", "%v", err)
	}
	n.listener = ln
	n.releases.Push(func(context.Context) error {
		if err := ln.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil // the server has closed it
	})
	return nil
}

// openServices opens store, templates and sandboxes, and takes up what an earlier
// server has left.
func (n *Node) openServices(ctx context.Context) (err error) {
	if n.machines, n.builder, err = decideAccelerator(ctx, n.cfg, n.log); err != nil {
		return err
	}
	if err := n.openMetrics(); err != nil {
		return err
	}
	records, err := sqlstore.Open(ctx, n.data.store())
	if err != nil {
		return err
	}
	n.releases.Push(func(context.Context) error { return records.Close() })
	if err := n.tidyTemplates(ctx, records); err != nil {
		return err
	}
	memory := memimage.NewCache(vmm.MemoryName)
	n.releases.Push(func(context.Context) error { return memory.Close() })
	builds := newBuilds(ensureWith(n.builder, n.log))
	n.releases.Push(func(context.Context) error { builds.close(); return nil })
	n.sandboxes, err = sandbox.New(sandbox.Config{
		Store: records, Starter: n.machines.launcher,
		Templates: warmSnapshots{builds, n.builder, n.machines}, Memory: warmMemory{memory},
		RunsDir: n.data.runs(), SavesDir: n.data.saves(), LogsDir: n.data.logs(),
		Jail: n.machines.jail, UIDs: n.uids(),
		Limits:     sandbox.Limits{Sandboxes: n.cfg.MaxSandboxes, MemoryMB: n.cfg.MemoryMB, PrivateMB: n.cfg.PrivateMB, ReserveMB: n.cfg.ReserveMB},
		HostMemory: hostMemory,
		Pool:       n.pool(ctx),
		Log:        n.log, Observer: n.metrics,
	})
	if err != nil {
		return err
	}
	n.releases.Push(n.sandboxes.Close)
	return n.sandboxes.Start(ctx)
}

// tidyTemplates ends what killed builds left running and frees what nobody needs,
// before anything is started.
func (n *Node) tidyTemplates(ctx context.Context, records *sqlstore.Store) error {
	keys, err := warmKeys(ctx, records)
	if err != nil {
		return err
	}
	freed, err := n.builder.GC(ctx, keys)
	switch {
	case errors.Is(err, template.ErrBusy): // the build that runs is somebody's
	case err != nil:
		n.log.WarnContext(ctx, "free what templates no longer need", "error", err)
	case len(freed.Paths) > 0:
		n.log.InfoContext(ctx, "freed what templates no longer need", "folders", len(freed.Paths), "bytes", freed.Bytes)
	}
	return nil
}

// pool keeps one machine of the shipped template ready from the start, if that
// is built: nobody asked for it to be built yet.
func (n *Node) pool(ctx context.Context) sandbox.Pool {
	p := sandbox.Pool{Max: n.cfg.PoolMax, MemoryMB: n.cfg.PoolMemoryMB}
	if t, err := n.builder.Get(ctx, shippedTemplate); err == nil && t.Status == "ready" {
		p.First = []string{shippedTemplate}
	}
	return p
}

func (n *Node) uids() sandbox.UIDs {
	if !n.machines.jailed() {
		return sandbox.UIDs{}
	}
	return sandbox.UIDs{First: n.cfg.UIDFirst, Count: n.cfg.UIDCount}
}

// openEdge puts the HTTP API in front and announces it.
func (n *Node) openEdge(context.Context) error {
	keys, err := n.data.keys()
	if err != nil {
		return err
	}
	mux := &httpapi.Mux{}
	if _, err := v1.Register(mux, v1.Services{Sandboxes: n.sandboxes, Templates: n.builder, Node: about{n}}); err != nil {
		return err
	}
	if err := n.serveMetrics(mux); err != nil {
		return err
	}
	n.server, err = httpapi.New(httpapi.Config{Keys: keys, AllowHosts: n.allowedHosts(), Log: n.log, Observer: n.metrics}, mux)
	if err != nil {
		return err
	}
	if n.cfg.embedded {
		return nil
	}
	if err := n.data.announce(n.URL()); err != nil {
		return err
	}
	n.releases.Push(func(context.Context) error { return n.data.withdraw() })
	return nil
}

// allowedHosts adds the name that was given to listen on.
func (n *Node) allowedHosts() []string {
	hosts := n.cfg.AllowHosts
	if host, _, err := net.SplitHostPort(n.cfg.Listen); err == nil && host != "" && net.ParseIP(host) == nil {
		hosts = append(hosts, host)
	}
	return hosts
}

// URL is where clients on this machine reach the node.
func (n *Node) URL() string {
	host, port, _ := net.SplitHostPort(n.listener.Addr().String())
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// Serve answers requests until ctx ends.
func (n *Node) Serve(ctx context.Context) error { return n.server.Serve(ctx, n.listener) }

// Close puts everything away. Sandboxes go on; the next node finds them. It is
// fine twice.
func (n *Node) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	return n.releases.Run(ctx)
}

// banner tells whoever started the server what it is.
func (n *Node) banner(out io.Writer) {
	fmt.Fprintf(out, "listening on   %s\n", n.URL())
	fmt.Fprintf(out, "key file       %s\n", n.data.keyFile())
	fmt.Fprintf(out, "isolation      %s (%s %s, accelerator %s)\n", n.machines.isolation(), n.machines.caps.VMM, n.machines.caps.Version, n.machines.caps.Accelerator)
	switch n.machines.isolation() {
	case "emulated-vm+jail":
		fmt.Fprintln(out, "               Emulation is no security boundary for QEMU's maintainers: here the jail is what holds a guest that breaks out.")
	case "emulated-vm":
		fmt.Fprintln(out, "               Emulation is no security boundary for QEMU's maintainers, and without root there is no jail: run trusted code only.")
	}
}
