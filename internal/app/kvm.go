package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pandastack/internal/kit/durable"
	"pandastack/internal/template"
)

// kvmProbeTime is how long the shipped kernel has to boot under KVM, where it
// takes about a second.
const kvmProbeTime = 20 * time.Second

const kvmDevice = "/dev/kvm"

// verdict is what a probe found. It counts until the host boots again.
type verdict struct {
	BootID string `json:"boot_id"`
	Works  bool   `json:"works"`
	Reason string `json:"reason,omitempty"` // why not
}

// verdictFile is where the host's verdict is kept: for all data directories, if
// this user may write there.
func verdictFile(cfg Config) string {
	if os.Geteuid() == 0 {
		return "/run/pandastack/kvm.json"
	}
	return filepath.Join(cfg.DataDir, "kvm.json")
}

func bootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

// readVerdict gives this boot's verdict, if there is one.
func readVerdict(cfg Config) (verdict, bool) {
	var v verdict
	text, err := os.ReadFile(verdictFile(cfg))
	if err != nil || json.Unmarshal(text, &v) != nil {
		return verdict{}, false
	}
	id, err := bootID()
	return v, err == nil && v.BootID == id
}

// kvmOpens says whether the device is there for this user. It proves nothing more.
func kvmOpens() error {
	f, err := os.OpenFile(kvmDevice, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// autoAccelerator is kvm where a guest was seen to run under it since the host
// booted, and tcg everywhere else.
func autoAccelerator(cfg Config) string {
	if v, ok := readVerdict(cfg); ok && v.Works && kvmOpens() == nil {
		return "kvm"
	}
	return "tcg"
}

// probeKVM boots the template's kernel under KVM and keeps the verdict. m must
// be of the emulating kind.
func probeKVM(ctx context.Context, m *machines, warm *template.Warm) (v verdict, err error) {
	if v.BootID, err = bootID(); err != nil {
		return v, err
	}
	t, err := newTrial(m, warm)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	timed, cancel := context.WithTimeout(ctx, kvmProbeTime)
	defer cancel()
	switch err := t.boots(timed, "kvm"); {
	case err == nil:
		v.Works = true
	case ctx.Err() != nil:
		return v, ctx.Err()
	default:
		v.Reason = fmt.Sprintf("the shipped kernel did not boot under it within %v", kvmProbeTime)
		m.log.InfoContext(ctx, "no guest runs under "+kvmDevice, "error", err)
	}
	return v, v.keep(m.cfg)
}

func (v verdict) keep(cfg Config) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	path := verdictFile(cfg)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(path, text, 0o600)
}
