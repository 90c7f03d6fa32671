package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"pandastack/internal/guestproto"
	"pandastack/internal/kit/cgroup"
	"pandastack/internal/kit/procs"
	"pandastack/internal/kit/unixdir"
	"pandastack/internal/panda"
)

// Command is the first argument of a shim process; the run folder is the second.
const Command = "shim"

// Launcher starts shims as processes of this very binary. The zero value is
// ready. Methods may be called concurrently for different folders.
type Launcher struct {
	// Flags are put behind the run folder, for the shim's own configuration.
	Flags []string
	// Env is the shims' environment; PATH is where they look for the VMM.
	Env []string
	// TSCKHz is the host's time stamp counter, for machines that boot.
	TSCKHz int
}

// Launch starts a shim. See Starter.
func (l *Launcher) Launch(ctx context.Context, spec Spec, memory *os.File) (Machine, error) {
	began := time.Now()
	if spec.State == "" {
		spec.TSCKHz = l.TSCKHz
	}
	cmd, err := l.spawn(spec, memory)
	if err != nil {
		return nil, err
	}
	c := newClient(spec.Dir, func(ctx context.Context) error { return l.Reap(ctx, spec.Dir) }, cmd)
	if _, err := c.State(ctx); err != nil {
		return nil, errors.Join(startFailed(spec.Dir, err), l.abandon(ctx, c))
	}
	up := guestproto.Step{Name: "shim", MS: float64(time.Since(began).Microseconds()) / 1000}
	state, err := c.ready(ctx)
	if err == nil && state.Phase == PhaseEnded {
		err = withFault(state.Failure, state.Fault)
	}
	if err != nil {
		return nil, errors.Join(startFailed(spec.Dir, err), l.abandon(ctx, c))
	}
	go c.watch()
	return &launched{Client: c, shimStep: up}, nil
}

// launched is a Client that remembers what only its launcher measured.
type launched struct {
	*Client
	shimStep guestproto.Step
}

// State adds the time the shim process itself took to come up.
func (l *launched) State(ctx context.Context) (State, error) {
	s, err := l.Client.State(ctx)
	s.Steps = append([]guestproto.Step{l.shimStep}, s.Steps...)
	return s, err
}

// abandon ends a shim whose start failed, also when the caller is gone.
func (l *Launcher) abandon(ctx context.Context, c *Client) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	close(c.done) // nobody watches
	return c.Close(ctx)
}

func startFailed(dir string, cause error) error {
	if errors.Is(cause, syscall.ENOSPC) {
		return fmt.Errorf("start the virtual machine: %w", cause)
	}
	return &panda.Error{Code: "sandbox.start_failed",
		Message: "the virtual machine did not come up (logs in " + dir + ")", Cause: cause}
}

// spawn starts the process with its listener already listening, so that the
// first call cannot come too early.
func (l *Launcher) spawn(spec Spec, memory *os.File) (*exec.Cmd, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(spec.Dir, specFile), text, 0o600); err != nil {
		return nil, err
	}
	listener, err := unixdir.Listen(spec.Dir, socketName)
	if err != nil {
		return nil, fmt.Errorf("shim socket: %w", err)
	}
	defer listener.Close()
	socket, err := listener.File()
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	log, err := os.OpenFile(filepath.Join(spec.Dir, logFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: append([]string{"pandastack", Command, spec.Dir}, l.Flags...),
		Env: append([]string{"GOMAXPROCS=2", "GOGC=50"}, l.Env...), Dir: "/",
		Stdout: log, Stderr: log,
		ExtraFiles:  []*os.File{socket},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if memory != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, memory)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the shim: %w", err)
	}
	return cmd, nil
}

// Adopt finds the shim of a run folder again.
func (l *Launcher) Adopt(ctx context.Context, dir string) (Machine, error) {
	c := newClient(dir, func(ctx context.Context) error { return l.Reap(ctx, dir) }, nil)
	state, err := c.quiet(ctx)
	if err == nil && state.Phase == PhaseEnded {
		err = errors.New(state.Failure)
	}
	if err != nil {
		return nil, err
	}
	go c.watch()
	return c, nil
}

// Reap ends whatever processes of a run folder are left: the shim by the
// folder in its arguments, the VMM by its name. It also removes their cgroup.
func (l *Launcher) Reap(ctx context.Context, dir string) error {
	id := filepath.Base(dir)
	if spec, err := readSpec(dir); err == nil {
		id = spec.ID
	}
	_, err := procs.Kill(ctx, func(args []string) bool { return isShim(args, dir) || isVMM(args, id) })
	return errors.Join(err, cgroup.Remove(id))
}

func isShim(args []string, dir string) bool {
	return len(args) > 2 && args[1] == Command && args[2] == dir
}

func isVMM(args []string, id string) bool {
	i := slices.Index(args, "pandastack-"+id)
	return i > 0 && args[i-1] == "-name"
}

var _ Starter = (*Launcher)(nil)
