package sandbox

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/panda"
)

// Exec runs a process and returns when it has ended. It is killed when ctx ends.
func (s *Service) Exec(ctx context.Context, id string, req api.Exec) (api.ExecResult, error) {
	if (req.Cmd == "") == (len(req.Argv) == 0) {
		return api.ExecResult{}, invalid("cmd", "give either cmd or argv")
	}
	limit, err := checkSeconds(req.TimeoutSeconds)
	if err != nil {
		return api.ExecResult{}, err
	}
	if err := checkEnv(req.Env); err != nil {
		return api.ExecResult{}, err
	}
	p := newProcess(s.cfg.Limits)
	err = s.call(ctx, id, aboutProcess, func(ctx context.Context, l *live, g guestproto.Guest) error {
		err := g.Exec(ctx, guestproto.ExecRequest{
			Shell: req.Cmd, Argv: req.Argv, Cwd: req.Cwd, Env: merged(l.env, req.Env),
			Stdin: []byte(req.Stdin), TimeoutMS: limit,
		}, p.add)
		if err == nil && p.exit == nil {
			err = errors.New("the agent ended a process's events without the last one")
		}
		return err
	})
	if err != nil {
		return api.ExecResult{}, err
	}
	return p.result(req.TimeoutSeconds)
}

// process is what a process has left so far.
type process struct {
	stdout, stderr clip
	exit           *guestproto.ExecEvent
}

func newProcess(l Limits) *process {
	return &process{stdout: clip{limit: l.ExecBytes}, stderr: clip{limit: l.ExecBytes}}
}

func (p *process) add(e guestproto.ExecEvent) error {
	switch e.Type {
	case guestproto.ExecStdout:
		p.stdout.write(string(e.Data))
	case guestproto.ExecStderr:
		p.stderr.write(string(e.Data))
	case guestproto.ExecExit:
		p.exit = &e
	}
	return nil
}

func (p *process) result(limit float64) (api.ExecResult, error) {
	stdout, stderr := p.stdout.text(), p.stderr.text()
	if p.exit.TimedOut {
		return api.ExecResult{}, &panda.Error{
			Code:    api.CodeExecTimeout,
			Message: fmt.Sprintf("the process ran longer than %g s and was killed", limit),
			Detail:  map[string]any{"stdout": stdout, "stderr": stderr},
		}
	}
	r := api.ExecResult{
		Stdout: stdout, Stderr: stderr, ExitCode: p.exit.ExitCode,
		Signal: shorten(p.exit.Signal, 32), DurationMS: p.exit.DurationMS,
	}
	if r.Signal != "" {
		r.ExitCode = 128 + signalNumber(r.Signal)
	}
	t := api.Truncation{Stdout: p.stdout.truncated(0), Stderr: p.stderr.truncated(0)}
	if t != (api.Truncation{}) {
		r.Truncated = &t
	}
	return r, nil
}

// signalNumber takes a signal's name (SIGKILL) or description (killed); 0 is neither.
func signalNumber(name string) int {
	if n := unix.SignalNum(name); n != 0 {
		return int(n)
	}
	for n := unix.Signal(1); n < 65; n++ {
		if n.String() == name {
			return int(n)
		}
	}
	return 0
}
