package app

import (
	"context"
	"errors"
	"fmt"
	"os"

	"pandastack/api"
	"pandastack/internal/cli"
	"pandastack/internal/panda"
)

// patient is one run of doctor: what later checks take from earlier ones.
type patient struct {
	cfg      Config
	machines *machines // nil when no VMM was found
}

// exam is one check. What it returns is shown; an error fails it, a warning
// does not.
type exam struct {
	name string
	run  func(*patient, context.Context) (found string, err error)
}

// exams in their order. A later one may rely on what an earlier one found.
var exams = []exam{
	{"configuration", (*patient).configuration},
	{"qemu", (*patient).vmm},
	{"qemu monitor", (*patient).monitor},
	{"accelerator", (*patient).accelerator},
	{"jail", (*patient).jail},
	{"memory", (*patient).memory},
	{"sealed memory", (*patient).sealedMemory},
	{"data directory", (*patient).dataDirectory},
	{"disk", (*patient).disk},
	{"file system", (*patient).fileSystem},
	{"programs", (*patient).programs},
	{"guest agent", (*patient).agent},
	{"template", (*patient).template},
}

// warning is a finding that does not keep sandboxes from running.
type warning struct{ found, hint string }

func (w *warning) Error() string { return w.found }

// errSkipped says that an earlier check has failed already.
var errSkipped = errors.New("needs what failed above")

// Doctor checks this host and reports each check as it finishes.
func Doctor(ctx context.Context, cfg Config, report func(cli.Check)) error {
	p := &patient{cfg: cfg}
	for _, e := range exams {
		if err := ctx.Err(); err != nil {
			return err
		}
		found, err := e.run(p, ctx)
		report(finding(e.name, found, err))
	}
	return nil
}

func finding(name, found string, err error) cli.Check {
	c := cli.Check{Name: name, Status: cli.OK, Found: found}
	var warn *warning
	var known *panda.Error
	switch {
	case err == nil:
	case errors.Is(err, errSkipped):
		c.Status, c.Found = cli.Warn, err.Error()
	case errors.As(err, &warn):
		c.Status, c.Found, c.Hint = cli.Warn, warn.found, warn.hint
	case errors.As(err, &known):
		c.Status, c.Found, c.Hint = cli.Fail, known.Message, known.Hint
		if c.Hint == "" {
			c.Hint = api.Lookup(known.Code).Hint
		}
	default:
		c.Status, c.Found = cli.Fail, err.Error()
	}
	return c
}

func (p *patient) configuration(context.Context) (string, error) {
	return "data directory " + p.cfg.DataDir + ", listen on " + p.cfg.Listen, nil // Load has checked it
}

func (p *patient) vmm(ctx context.Context) (string, error) {
	m, err := newMachines(ctx, p.cfg)
	if err != nil {
		return "", err
	}
	p.machines = m
	return fmt.Sprintf("%s %s (%s), TSC %d kHz", m.caps.VMM, m.caps.Version, m.caps.Binary, m.tscKHz), nil
}

// accelerator only looks whether /dev/kvm opens. That proves nothing; what
// counts is what guests were seen to run under.
func (p *patient) accelerator(context.Context) (string, error) {
	if p.machines == nil {
		return "", errSkipped
	}
	used := p.machines.caps.Accelerator
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err == nil {
		err = f.Close()
	}
	switch {
	case err == nil && used == "kvm":
		return "kvm", nil
	case err == nil:
		return used + "; /dev/kvm opens, --accelerator kvm uses it", nil
	case used == "kvm":
		return "", fmt.Errorf("kvm was asked for: %w", err)
	}
	return used + ", no /dev/kvm: guests are emulated and slower", nil
}

func (p *patient) jail(ctx context.Context) (string, error) {
	if p.machines == nil {
		return "", errSkipped
	}
	if !p.machines.jailed() {
		return "", &warning{"off: a guest that breaks out of QEMU is this user", "run as root, without --jail off"}
	}
	if os.Geteuid() != 0 {
		return "", &panda.Error{Code: api.CodeHostBadConfig, Message: "on, but this user is not root", Hint: "Run with sudo, or with --jail off."}
	}
	last := p.cfg.UIDFirst + p.cfg.UIDCount
	return fmt.Sprintf("on, users %d to %d", p.cfg.UIDFirst, last), nil
}

func (p *patient) agent(context.Context) (string, error) {
	agent, err := guestAgent()
	return fmt.Sprintf("%d KiB, built in", len(agent)>>10), err
}

// template says whether the shipped template can be started at once.
func (p *patient) template(ctx context.Context) (string, error) {
	if p.machines == nil {
		return "", errSkipped
	}
	const name = "code-interpreter"
	b, err := newBuilder(ctx, p.cfg, p.machines, newLogger(p.cfg, os.Stderr))
	if err != nil {
		return "", err
	}
	t, err := b.Get(ctx, name)
	if err != nil {
		return "", err
	}
	if t.Status != "ready" {
		return "", &warning{name + " is " + t.Status, "'pandastack template build " + name + "' takes some minutes; the first sandbox does it otherwise"}
	}
	return fmt.Sprintf("%s is ready, %d MB", name, t.SizeBytes>>20), nil
}
