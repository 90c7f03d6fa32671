package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"pandastack/api"
	"pandastack/internal/cli"
	"pandastack/internal/panda"
	"pandastack/internal/template"
)

// shippedTemplate is the one that a first user starts.
const shippedTemplate = "code-interpreter"

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
	{"jail", (*patient).jail},
	{"memory", (*patient).memory},
	{"sealed memory", (*patient).sealedMemory},
	{"data directory", (*patient).dataDirectory},
	{"disk", (*patient).disk},
	{"file system", (*patient).fileSystem},
	{"programs", (*patient).programs},
	{"guest agent", (*patient).agent},
	{"template", (*patient).template},
	{"accelerator", (*patient).accelerator},
	{"save and restore", (*patient).endToEnd},
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
	m, err := newMachines(ctx, p.cfg, newLogger(p.cfg, os.Stderr))
	if err != nil {
		return "", err
	}
	p.machines = m
	return fmt.Sprintf("%s %s (%s), TSC %d kHz", m.caps.VMM, m.caps.Version, m.caps.Binary, m.tscKHz), nil
}

// accelerator says what guests run under, and whether they could run under KVM:
// once a template is built its kernel is booted to see.
func (p *patient) accelerator(ctx context.Context) (string, error) {
	if p.machines == nil {
		return "", errSkipped
	}
	used := p.machines.caps.Accelerator
	if err := kvmOpens(); err != nil {
		if used == "kvm" {
			return "", fmt.Errorf("kvm was asked for: %w", err)
		}
		return used + ", no " + kvmDevice + ": guests are emulated and slower", nil
	}
	v, known := readVerdict(p.cfg)
	if !known && used != "kvm" {
		warm, err := p.warm(ctx)
		if err != nil {
			return "", err
		}
		if v, err = probeKVM(ctx, p.machines, warm); err != nil {
			return "", err
		}
	}
	switch {
	case used == "kvm", v.Works:
		return "kvm: a guest was booted under it", nil
	default:
		return used + "; " + kvmDevice + " opens, but " + v.Reason, nil
	}
}

// warm is the shipped template's snapshot, if it is there; nothing is built.
func (p *patient) warm(ctx context.Context) (*template.Warm, error) {
	b, err := newBuilder(ctx, p.cfg, p.machines, p.machines.log)
	if err != nil {
		return nil, err
	}
	t, err := b.Get(ctx, shippedTemplate)
	if err != nil {
		return nil, err
	}
	if t.Status != "ready" {
		return nil, &warning{shippedTemplate + " is " + t.Status, "'pandastack template build " + shippedTemplate + "' takes some minutes; the first sandbox does it otherwise"}
	}
	return b.Ensure(ctx, shippedTemplate, nil)
}

// endToEnd boots, saves and restores a machine.
func (p *patient) endToEnd(ctx context.Context) (_ string, err error) {
	if p.machines == nil {
		return "", errSkipped
	}
	warm, err := p.warm(ctx)
	if err != nil {
		return "", err
	}
	t, err := newTrial(p.machines, warm)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	began := time.Now()
	if err := t.saves(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("a machine was booted, saved and restored with its memory in %.1f s", time.Since(began).Seconds()), nil
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
	warm, err := p.warm(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s is ready, image %.12s", shippedTemplate, warm.Image.Manifest.Digest), nil
}
