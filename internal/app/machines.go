package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	"pandastack/internal/kit/failpoint"
	"pandastack/internal/kit/tsc"
	"pandastack/internal/sandbox"
	"pandastack/internal/shim"
	"pandastack/internal/vmm"
	"pandastack/internal/vmm/qemu"
)

// tscWindow is how long each look at the time stamp counter takes; five are taken.
const tscWindow = 20 * time.Millisecond

// machines is how this node runs virtual machines: the one place that names a
// VMM driver.
type machines struct {
	cfg      Config
	log      *slog.Logger
	driver   *qemu.Driver
	launcher *shim.Launcher
	caps     vmm.Capabilities
	tscKHz   int
}

// newMachines looks at the host. It fails where nothing can run.
func newMachines(ctx context.Context, cfg Config, log *slog.Logger) (*machines, error) {
	accelerator := cfg.Accelerator
	if accelerator == "auto" {
		accelerator = autoAccelerator(cfg)
	}
	m := &machines{cfg: cfg, log: log, driver: &qemu.Driver{Accelerator: accelerator}}
	var err error
	if m.caps, err = m.driver.Capabilities(ctx); err != nil {
		return nil, err
	}
	m.tscKHz = tsc.KHz(tscWindow)
	m.launcher = &shim.Launcher{
		Flags:  []string{m.caps.Accelerator},
		Env:    shimEnv(),
		TSCKHz: m.tscKHz,
	}
	return m, nil
}

// shimEnv has where the shim looks for the VMM, and what a test arms it with.
func shimEnv() []string {
	env := []string{"PATH=" + os.Getenv("PATH")}
	if point := os.Getenv(failpoint.Env); point != "" {
		env = append(env, failpoint.Env+"="+point)
	}
	return env
}

// undecided says whether a guest might run under KVM and nobody has tried since
// the host booted.
func (m *machines) undecided() bool {
	_, known := readVerdict(m.cfg)
	return m.cfg.Accelerator == "auto" && m.caps.Accelerator == "tcg" && !known && kvmOpens() == nil
}

// jailed says whether VMMs are confined in namespaces and users of their own.
func (m *machines) jailed() bool {
	return m.cfg.Jail == "on" || m.cfg.Jail == "auto" && os.Geteuid() == 0
}

// jail gives what all machines' jails share.
func (m *machines) jail(ctx context.Context) (shim.Jail, error) {
	if !m.jailed() {
		return shim.Jail{}, nil
	}
	root, err := m.driver.JailRoot(ctx, dataDir(m.cfg.DataDir).jail())
	if err != nil {
		return shim.Jail{}, fmt.Errorf("make the jail's root: %w", err)
	}
	return shim.Jail{Enabled: true, Root: root}, nil
}

// bakeJail is the jail of the machine that bakes a template. Its user is the
// one past those of sandboxes.
func (m *machines) bakeJail(ctx context.Context) (shim.Jail, error) {
	jail, err := m.jail(ctx)
	if jail.Enabled {
		jail.UID = m.cfg.UIDFirst + m.cfg.UIDCount
		jail.GID = jail.UID
	}
	return jail, err
}

// isolation of every sandbox on this node, as the API names it.
func (m *machines) isolation() string {
	switch {
	case m.caps.Accelerator == "kvm":
		return "hardware-vm"
	case m.jailed():
		return "emulated-vm+jail"
	}
	return "emulated-vm"
}

// compat is what a snapshot made on this host depends on, but for the time stamp
// counter, which is never measured twice alike: fits compares that.
func (m *machines) compat(ctx context.Context, cpus, memoryMB int) (string, error) {
	key, err := m.driver.Key(ctx, cpus, memoryMB)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(key)
	return string(text), err
}

// fits says whether a snapshot with this compatibility key can be loaded here, into
// a machine of that size.
func (m *machines) fits(ctx context.Context, saved string, size sandbox.Size) error {
	key, err := parseKey(saved)
	if err != nil {
		return err
	}
	host, err := m.driver.Key(ctx, size.CPUs, size.MemoryMB)
	if err != nil {
		return err
	}
	host.TSCKHz = m.tscKHz
	return key.Fits(host)
}

// fitsOwn is fits for a machine of the size that the key names.
func (m *machines) fitsOwn(ctx context.Context, saved string) error {
	key, err := parseKey(saved)
	if err != nil {
		return err
	}
	return m.fits(ctx, saved, sandbox.Size{CPUs: key.CPUs, MemoryMB: key.MemoryMB})
}

func parseKey(text string) (key vmm.Key, err error) {
	if err := json.Unmarshal([]byte(text), &key); err != nil {
		return key, fmt.Errorf("compatibility key: %w", err)
	}
	return key, nil
}
