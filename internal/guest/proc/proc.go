// Package proc runs one process per call and streams its output.
package proc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pandastack/internal/guest/cgroup"
	"pandastack/internal/guest/reap"
	"pandastack/internal/guest/session"
	"pandastack/internal/guestproto"
)

const (
	termGrace = 2 * time.Second        // between TERM and KILL
	drainTime = 100 * time.Millisecond // for output after the main process ended
)

// Runner runs processes.
type Runner struct {
	Env    []string // every process's, before its request's
	Cwd    string
	Reap   *reap.Table
	Groups *cgroup.Tree
	Adjust func(pid int)

	runs atomic.Int64 // names the groups
}

// Exec implements guestproto.Guest.
func (r *Runner) Exec(ctx context.Context, req guestproto.ExecRequest, sink func(guestproto.ExecEvent) error) error {
	cmd, err := r.command(req)
	if err != nil {
		return err
	}
	group, err := r.Groups.New("exec-" + itoa(r.runs.Add(1)))
	if err != nil {
		return err
	}
	defer func() { _ = group.Remove() }()
	if fd, ok := group.FD(); ok {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, fd
	}
	p, err := start(r.Reap, cmd, req.Stdin)
	if err != nil {
		return startError(cmd, err)
	}
	p.group = group
	if r.Adjust != nil {
		r.Adjust(cmd.Process.Pid)
	}
	return p.run(ctx, time.Duration(req.TimeoutMS)*time.Millisecond, sink)
}

func (r *Runner) command(req guestproto.ExecRequest) (*exec.Cmd, error) {
	argv := req.Argv
	if (req.Shell == "") == (len(argv) == 0) || req.TimeoutMS < 0 {
		return nil, guestproto.Errorf(guestproto.CodeInvalid, "exec: want exactly one of shell and argv, and no negative timeout")
	}
	if req.Shell != "" {
		argv = []string{"/bin/sh", "-c", req.Shell}
	}
	env := r.Env
	for k, v := range req.Env {
		env = append(env[:len(env):len(env)], k+"="+v)
	}
	for _, s := range append(env[len(r.Env):], argv...) {
		if strings.IndexByte(s, 0) >= 0 {
			return nil, guestproto.Errorf(guestproto.CodeInvalid, "exec: a NUL byte in an argument or variable")
		}
	}
	cwd := req.Cwd
	if cwd == "" {
		cwd = r.Cwd
	}
	if st, err := os.Stat(cwd); err != nil || !st.IsDir() {
		return nil, guestproto.Errorf(guestproto.CodeNotFound, "working directory %.200q does not exist", cwd)
	}
	return &exec.Cmd{
		Path: lookPath(argv[0], cwd, env), Args: argv, Dir: cwd, Env: dedupe(env),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}, nil
}

// startError says why a process could not be started, in the caller's terms.
func startError(cmd *exec.Cmd, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return guestproto.Errorf(guestproto.CodeNotFound, "%.200s: command not found", cmd.Args[0])
	case errors.Is(err, fs.ErrPermission):
		return guestproto.Errorf(guestproto.CodePermission, "%.200s: not executable", cmd.Args[0])
	case errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.E2BIG):
		return guestproto.Errorf(guestproto.CodeInvalid, "%.200s: %v", cmd.Args[0], err)
	}
	return err
}

// process is one run.
type process struct {
	table  *reap.Table
	cmd    *exec.Cmd
	group  *cgroup.Group
	out    *output
	stdin  *os.File
	begun  time.Time
	exited chan struct{}
}

// kill ends the whole run at once.
func (p *process) kill() {
	_ = p.group.Kill()
	if p.group == nil {
		_ = session.Kill(p.cmd.Process.Pid)
	}
}

// run delivers output until the process has ended and its pipes are drained.
func (p *process) run(ctx context.Context, timeout time.Duration, sink func(guestproto.ExecEvent) error) error {
	limit := newLimit(timeout)
	defer limit.stop()
	defer func() { p.close(limit.hit) }()
	var drained <-chan time.Time
	exited := p.exited
	for {
		select {
		case e, open := <-p.out.events:
			if !open { // both pipes ended; the process may go on without them
				p.out.events = nil
				if exited == nil {
					return sink(p.result(limit.hit))
				}
				continue
			}
			if err := sink(e); err != nil {
				return err
			}
		case <-exited:
			exited = nil
			if p.out.events == nil {
				return sink(p.result(limit.hit))
			}
			drained = time.After(drainTime)
		case <-drained:
			return sink(p.result(limit.hit))
		case <-limit.c:
			limit.fire(p)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *process) result(timedOut bool) guestproto.ExecEvent {
	e := guestproto.ExecEvent{
		Type: guestproto.ExecExit, TimedOut: timedOut,
		DurationMS: float64(time.Since(p.begun).Microseconds()) / 1000,
	}
	state := p.cmd.ProcessState
	e.ExitCode = state.ExitCode()
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.Signal = unix.SignalName(ws.Signal())
	}
	return e
}

// close ends what is left of the run, unless it ended in time by itself: then
// its background processes may go on.
func (p *process) close(timedOut bool) {
	select {
	case <-p.exited:
		if timedOut {
			p.kill()
		}
	default:
		p.kill()
	}
	p.out.close()
	<-p.exited
}

// limit is the time a run may take: TERM, then KILL.
type limit struct {
	timer *time.Timer
	c     <-chan time.Time
	hit   bool
}

func newLimit(d time.Duration) *limit {
	if d <= 0 {
		return &limit{}
	}
	t := time.NewTimer(d)
	return &limit{timer: t, c: t.C}
}

func (l *limit) fire(p *process) {
	if l.hit {
		p.kill()
		return
	}
	l.hit = true
	_ = session.Signal(p.cmd.Process.Pid, unix.SIGTERM)
	l.timer.Reset(termGrace)
}

func (l *limit) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}
