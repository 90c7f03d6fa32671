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
	p := newProcess(s.cfg.Limits)
	if err := s.ExecStream(ctx, id, req, p.add); err != nil {
		return api.ExecResult{}, err
	}
	return p.result(req.TimeoutSeconds)
}

// ExecStream runs a process and calls sink with its output as it comes, and
// last with its exit, whose code is 128 + the signal's number when a signal
// ended it. The process is killed when ctx ends or sink fails.
func (s *Service) ExecStream(ctx context.Context, id string, req api.Exec, sink func(guestproto.ExecEvent) error) error {
	limit, err := checkExec(req)
	if err != nil {
		return err
	}
	to := &taker{sink: sink}
	defer func() { s.observeExec(to.exit) }()
	err = s.call(ctx, id, aboutProcess, func(ctx context.Context, l *live, g guestproto.Guest) error {
		err := g.Exec(ctx, guestproto.ExecRequest{
			Shell: req.Cmd, Argv: req.Argv, Cwd: req.Cwd, Env: merged(l.env, req.Env),
			Stdin: []byte(req.Stdin), TimeoutMS: limit,
		}, to.take)
		if to.err != nil {
			return nil // no fault of the agent's
		}
		if err == nil && to.exit == nil {
			err = errors.New("the agent ended a process's events without the last one")
		}
		return err
	})
	if err == nil && to.err != nil {
		err = fmt.Errorf("the caller left: %w", to.err)
	}
	return err
}

func checkExec(req api.Exec) (limitMS int64, err error) {
	if (req.Cmd == "") == (len(req.Argv) == 0) {
		return 0, invalid("cmd", "give either cmd or argv")
	}
	if err := checkEnv(req.Env); err != nil {
		return 0, err
	}
	return checkSeconds(req.TimeoutSeconds)
}

// taker hands events on and remembers how that went.
type taker struct {
	sink func(guestproto.ExecEvent) error
	exit *guestproto.ExecEvent
	err  error // the sink's
}

func (t *taker) take(e guestproto.ExecEvent) error {
	if e.Type == guestproto.ExecExit {
		if e.Signal = shorten(e.Signal, 32); e.Signal != "" {
			e.ExitCode = 128 + signalNumber(e.Signal)
		}
		t.exit = &e
	}
	t.err = t.sink(e)
	return t.err
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
		Signal: p.exit.Signal, DurationMS: p.exit.DurationMS,
	}
	t := api.Truncation{Stdout: p.stdout.truncated(guestproto.Size{}), Stderr: p.stderr.truncated(guestproto.Size{})}
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
