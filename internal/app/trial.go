package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"pandastack/internal/guestproto"
	"pandastack/internal/memimage"
	"pandastack/internal/shim"
	"pandastack/internal/template"
	"pandastack/internal/vmm"
)

// trialMemoryMB is enough for a guest that does nothing.
const trialMemoryMB = 256

// trial runs machines of a template's image that are no sandboxes, to see
// whether this host can.
type trial struct {
	machines *machines
	warm     *template.Warm
	dir      string // private, removed by close
}

func newTrial(m *machines, warm *template.Warm) (*trial, error) {
	tmp := dataDir(m.cfg.DataDir).tmp()
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(tmp, "trial-*")
	return &trial{machines: m, warm: warm, dir: dir}, err
}

func (t *trial) close() error { return os.RemoveAll(t.dir) }

// spec is a machine in a run folder of its own, on a disk that it shares with
// the trial's other ones, of which only one runs at a time.
func (t *trial) spec(ctx context.Context, name string) (shim.Spec, error) {
	run, upper := filepath.Join(t.dir, name), filepath.Join(t.dir, "upper.raw")
	if err := os.MkdirAll(run, 0o700); err != nil {
		return shim.Spec{}, err
	}
	if _, err := os.Stat(upper); err != nil {
		out, err := exec.CommandContext(ctx, "mke2fs", "-q", "-t", "ext4", "-J", "size=8", upper, "128M").CombinedOutput()
		if err != nil {
			return shim.Spec{}, fmt.Errorf("mke2fs: %w: %s", err, out)
		}
	}
	jail, err := t.machines.bakeJail(ctx)
	return shim.Spec{
		ID: filepath.Base(t.dir) + "-" + name, Dir: run,
		Kernel: t.warm.Image.Kernel(), Initrd: t.warm.Initrd, Cmdline: cmdline(t.machines.caps),
		CPUs: 1, MemoryMB: trialMemoryMB, Base: t.warm.Image.Base(), UpperRaw: upper, Jail: jail,
	}, err
}

// boots starts the shipped kernel and waits for the agent's hello. A device
// file that opens proves nothing: some hosts run a toy guest and kill a real kernel.
func (t *trial) boots(ctx context.Context, accelerator string) error {
	spec, err := t.spec(ctx, accelerator)
	if err != nil {
		return err
	}
	launcher := *t.machines.launcher
	launcher.Flags = []string{accelerator}
	m, err := launcher.Launch(ctx, spec, nil)
	if err != nil {
		return err
	}
	return m.Close(context.WithoutCancel(ctx))
}

// saves boots a machine, puts a word into its memory, saves it, restores it and
// looks for the word.
func (t *trial) saves(ctx context.Context) (err error) {
	const word = "kept"
	memory, state := filepath.Join(t.dir, "memory.img"), filepath.Join(t.dir, "state")
	err = t.with(ctx, "boot", "", nil, func(m shim.Machine) error {
		if _, err := guestShell(ctx, m.Guest(), "echo "+word+" > /dev/shm/word; sync"); err != nil {
			return err
		}
		_, err := m.Save(ctx, memory, state)
		return err
	})
	if err != nil {
		return fmt.Errorf("boot and save: %w", err)
	}
	sealed, err := memimage.Load(vmm.MemoryName, memory)
	if err != nil {
		return err
	}
	defer sealed.Close()
	return t.with(ctx, "restored", state, sealed, func(m shim.Machine) error {
		got, err := guestShell(ctx, m.Guest(), "cat /dev/shm/word")
		if err == nil && got != word {
			err = fmt.Errorf("the restored machine's memory has %q, not %q", got, word)
		}
		return err
	})
}

// with runs use on a machine and ends it.
func (t *trial) with(ctx context.Context, name, state string, memory *os.File, use func(shim.Machine) error) error {
	spec, err := t.spec(ctx, name)
	if err != nil {
		return err
	}
	spec.State = state
	m, err := t.machines.launcher.Launch(ctx, spec, memory)
	if err != nil {
		return err
	}
	return errors.Join(use(m), m.Close(context.WithoutCancel(ctx)))
}

// guestShell runs a line in a guest and gives what it printed.
func guestShell(ctx context.Context, g guestproto.Guest, line string) (string, error) {
	var out bytes.Buffer
	code := 0
	err := g.Exec(ctx, guestproto.ExecRequest{Shell: line}, func(e guestproto.ExecEvent) error {
		code = e.ExitCode
		_, err := io.Copy(&out, bytes.NewReader(e.Data))
		return err
	})
	if err == nil && code != 0 {
		err = fmt.Errorf("%q ended with %d: %s", line, code, out.String())
	}
	return strings.TrimSpace(out.String()), err
}
