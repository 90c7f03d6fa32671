package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/panda"
)

// settleTime is how long a broken call waits to hear that its machine ended:
// the stream breaks a moment before the shim knows why.
const settleTime = 3 * time.Second

// call runs f with the agent of a running sandbox. Its context ends with the
// machine. subject says what f is about, for the agent's refusals.
func (s *Service) call(ctx context.Context, id string, subject subject, f func(context.Context, *live, guestproto.Guest) error) error {
	l, guest, err := s.guest(id)
	if err != nil {
		return err
	}
	bound, release := l.bind(ctx)
	defer release()
	return s.explain(ctx, l, subject, f(bound, l, guest))
}

// guest gives the agent of a running sandbox, or why there is none.
func (s *Service) guest(id string) (*live, guestproto.Guest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.live[id]
	if l == nil {
		return nil, nil, notFound(id)
	}
	switch {
	case l.record.Status == panda.Failed:
		return nil, nil, failed(l.record.Failure)
	case l.record.Status != panda.Running:
		return nil, nil, &panda.Error{
			Code:    api.CodeSandboxNotRunning,
			Message: fmt.Sprintf("the sandbox is %s, not %s", l.record.Status, panda.Running),
		}
	case l.ended.Err() != nil:
		return nil, nil, failed(endSentence(l.machine.Failure()))
	}
	return l, l.machine.Guest(), nil
}

// bind gives a context that also ends with the machine. Until release l counts
// as in use.
func (l *live) bind(ctx context.Context) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(l.ended, cancel)
	l.use.begin()
	return ctx, func() {
		stop()
		cancel()
		l.use.end()
	}
}

// explain turns what a call to the agent met into what its caller may see. ctx
// is the caller's.
func (s *Service) explain(ctx context.Context, l *live, subject subject, err error) error {
	var known *panda.Error
	var refusal *guestproto.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.As(err, &refusal) && refusal.Code != guestproto.CodeBroken:
		return refused(subject, refusal)
	case ctx.Err() != nil:
		return fmt.Errorf("the caller left: %w", ctx.Err())
	}
	settled, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if wait(settled, l.ended.Done()) != nil {
		return &panda.Error{Code: api.CodeGuestUnreachable, Message: "the sandbox's agent did not answer", Cause: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.record.Status == panda.Stopping {
		return &panda.Error{Code: api.CodeSandboxNotFound, Message: "the sandbox was deleted during the call", Cause: err}
	}
	known = failed(endSentence(l.machine.Failure()))
	known.Cause = err
	return known
}
