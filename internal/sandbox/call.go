package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/panda"
	"pandastack/internal/shim"
)

// settleTime is how long a broken call waits to hear that its machine ended:
// the stream breaks a moment before the shim knows why.
const settleTime = 3 * time.Second

// session is a running sandbox's machine, as one call sees it.
type session struct {
	*live
	machine shim.Machine
	guest   guestproto.Guest
	ended   context.Context // done once this machine is gone
}

// call runs f with the agent of a running sandbox. Its context ends with the
// machine. subject says what f is about, for the agent's refusals.
func (s *Service) call(ctx context.Context, id string, subject subject, f func(context.Context, *live, guestproto.Guest) error) error {
	in, err := s.enter(ctx, id)
	if err != nil {
		return err
	}
	bound, release := in.bind(ctx)
	defer release()
	return s.explain(ctx, in, subject, f(bound, in.live, in.guest))
}

// enter gives the agent of a sandbox: it waits for an operation that is under way,
// wakes one that hibernates, and boots one that failed from its disk.
func (s *Service) enter(ctx context.Context, id string) (session, error) {
	for {
		in, moving, err := s.session(id)
		switch {
		case moving != nil:
			if err := wait(ctx, moving); err != nil {
				return session{}, fmt.Errorf("the caller left: %w", err)
			}
		case errors.Is(err, errAsleep):
			if _, err := s.Wake(ctx, id, ""); err != nil {
				return session{}, err
			}
		default:
			return in, err
		}
	}
}

// errAsleep says that a sandbox has no machine, but would go on with one.
var errAsleep = errors.New("the sandbox has to be woken")

// session gives a running sandbox's machine, what to wait for first, or why there
// is none.
func (s *Service) session(id string) (in session, moving <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.live[id]
	if l == nil {
		return in, nil, notFound(id)
	}
	if l.moving != nil {
		return in, l.moving, nil
	}
	switch record := l.record; {
	case record.Status == panda.Failed && l.deletion == nil, record.Status == panda.Hibernated && record.AutoWake:
		return in, nil, errAsleep
	case record.Status == panda.Hibernated:
		return in, nil, hibernated()
	case record.Status == panda.Paused:
		return in, nil, &panda.Error{Code: api.CodeSandboxPaused, Message: "the sandbox is paused"}
	case record.Status != panda.Running:
		return in, nil, &panda.Error{
			Code:    api.CodeSandboxNotRunning,
			Message: fmt.Sprintf("the sandbox is %s, not %s", record.Status, panda.Running),
		}
	case l.ended.Err() != nil:
		return in, nil, failed(endSentence(l.machine.Failure()))
	}
	return session{live: l, machine: l.machine, guest: l.machine.Guest(), ended: l.ended}, nil, nil
}

// bind gives a context that also ends with the machine. Until release the sandbox
// counts as in use.
func (in session) bind(ctx context.Context) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(in.ended, cancel)
	in.use.begin()
	return ctx, func() {
		stop()
		cancel()
		in.use.end()
	}
}

// explain turns what a call to the agent met into what its caller may see. ctx
// is the caller's.
func (s *Service) explain(ctx context.Context, in session, subject subject, err error) error {
	var known *panda.Error
	var refusal *guestproto.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.As(err, &refusal) && refusal.Code != guestproto.CodeBroken:
		return s.withLoss(in, refused(subject, refusal))
	case ctx.Err() != nil:
		return fmt.Errorf("the caller left: %w", ctx.Err())
	}
	settled, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if wait(settled, in.ended.Done()) != nil {
		return &panda.Error{Code: api.CodeGuestUnreachable, Message: "the sandbox's agent did not answer", Cause: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case in.record.Status == panda.Stopping:
		return &panda.Error{Code: api.CodeSandboxNotFound, Message: "the sandbox was deleted during the call", Cause: err}
	case in.record.Status == panda.Hibernated || in.moving != nil:
		return &panda.Error{Code: api.CodeSandboxHibernated, Message: "the sandbox was hibernated during the call", Cause: err}
	}
	known = failed(endSentence(in.machine.Failure()))
	known.Cause = err
	return known
}
