package app

import (
	"context"
	"log/slog"
	"os"
	"strings"

	"pandastack/internal/memimage"
	"pandastack/internal/sandbox"
	"pandastack/internal/template"
	"pandastack/internal/vmm"
	"pandastack/templates"
)

// guestCmdline is the guest kernel's command line; the shim adds the frequency of
// the time stamp counter. Console output costs an emulated CPU dearly, so the
// kernel keeps to warnings.
const guestCmdline = "console=ttyS0 loglevel=4 reboot=t panic=-1 random.trust_cpu=on init_on_free=1"

// cmdline is the command line of a guest's kernel on this host.
func cmdline(host vmm.Capabilities) string {
	return strings.TrimSpace(guestCmdline + " " + host.KernelArgs)
}

func newBuilder(ctx context.Context, cfg Config, m *machines, log *slog.Logger) (*template.Builder, error) {
	agent, _ := guestAgent() // without it everything but a bake works
	host, err := kernelHost()
	if err != nil {
		return nil, err
	}
	jail, err := m.bakeJail(ctx)
	if err != nil {
		return nil, err
	}
	return template.New(template.Config{
		Data: cfg.DataDir, Recipes: templates.FS,
		Mirror: cfg.Mirror, SecurityMirror: cfg.SecurityMirror, Log: log,
		Agent: agent, KernelHost: host, Starter: m.launcher, Cmdline: cmdline(m.caps),
		Accelerator: m.caps.Accelerator, Jail: jail, Compat: m.compat, Fits: m.fitsOwn,
	})
}

// openTemplates gives the host's machines and the templates for them.
func openTemplates(ctx context.Context, cfg Config, log *slog.Logger) (*machines, *template.Builder, error) {
	m, err := newMachines(ctx, cfg, log)
	if err != nil {
		return nil, nil, err
	}
	b, err := newBuilder(ctx, cfg, m, log)
	return m, b, err
}

// decideAccelerator is openTemplates with the question of /dev/kvm answered
// first, if it is open and can be: it takes a template that is ready.
func decideAccelerator(ctx context.Context, cfg Config, log *slog.Logger) (*machines, *template.Builder, error) {
	m, b, err := openTemplates(ctx, cfg, log)
	if err != nil || !m.undecided() {
		return m, b, err
	}
	t, err := b.Get(ctx, shippedTemplate)
	if err != nil || t.Status != "ready" {
		return m, b, err
	}
	warm, err := b.Ensure(ctx, shippedTemplate, nil)
	if err != nil {
		return m, b, nil // whoever asks for the template is told
	}
	log.InfoContext(ctx, "booting a guest under "+kvmDevice+" to see whether it really works", "at most", kvmProbeTime)
	if v, err := probeKVM(ctx, m, warm); err != nil || !v.Works {
		return m, b, err
	}
	return openTemplates(ctx, cfg, log)
}

// warmMemory gives the memory of warm snapshots; the cache keeps it.
type warmMemory struct{ cache *memimage.Cache }

func (w warmMemory) Open(ctx context.Context, warm sandbox.Warm) (*os.File, func(), error) {
	if warm.MemoryPath == "" {
		f, err := memimage.Empty(vmm.MemoryName, int64(warm.MemoryMB)<<20)
		return f, func() { _ = f.Close() }, err
	}
	f, err := w.cache.Open(ctx, warm.MemoryPath)
	return f, func() {}, err
}
