package sandbox

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"pandastack/api"
	"pandastack/internal/panda"
	"pandastack/internal/shim"
)

// operateTime bounds one operation on a whole machine: a memory is written or read.
const operateTime = 5 * time.Minute

// How an operation treats calls that come while it is under way.
const (
	callsGoOn = false // the machine does
	callsWait = true  // the status is about to change
)

// operate runs f on a sandbox while no other operation does. f goes on when ctx
// ends: what was begun is finished or undone.
func (s *Service) operate(ctx context.Context, id string, calls bool, f func(context.Context, *live) error) error {
	l, err := s.settled(id)
	if err != nil {
		return err
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("the caller left: %w", ctx.Err())
	}
	done := make(chan error, 1)
	began := s.spawn(func() {
		defer func() { <-l.turn }()
		done <- s.operateAlone(context.WithoutCancel(ctx), l, calls, f)
	})
	if !began {
		<-l.turn
		return shuttingDown()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the caller left: %w", ctx.Err())
	}
}

func (s *Service) operateAlone(ctx context.Context, l *live, calls bool, f func(context.Context, *live) error) error {
	ctx, cancel := context.WithTimeout(ctx, operateTime)
	defer cancel()
	if _, err := s.settled(l.id); err != nil { // deleted while this waited its turn
		return err
	}
	if calls {
		moving := make(chan struct{})
		s.setMoving(l, moving)
		defer close(moving)
		defer s.setMoving(l, nil)
	}
	s.mu.Lock()
	machine, ended := l.machine, l.ended
	s.mu.Unlock()
	err := diskFull(f(ctx, l))
	var known *panda.Error
	if err == nil || machine == nil || errors.As(err, &known) {
		return err
	}
	return machineDied(ctx, machine, ended, err)
}

// machineDied says so if that is why an operation failed. The shim's connection breaks
// a moment before anybody knows why.
func machineDied(ctx context.Context, machine shim.Machine, ended context.Context, err error) error {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if wait(ctx, ended.Done()) != nil {
		return err
	}
	select { // one that the operation has ended did not fail
	case <-machine.Done():
		known := failed(endSentence(machine.Failure()))
		known.Cause = err
		return known
	default:
		return err
	}
}

func (s *Service) setMoving(l *live, moving chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.moving = moving
}

// status gives a sandbox's record; its status does not change while its turn is held,
// but to failed.
func (s *Service) status(l *live) panda.Sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.record
}

// cannot is why a sandbox of this status cannot do what was asked.
func cannot(record panda.Sandbox, what string) error {
	switch record.Status {
	case panda.Failed:
		return failed(record.Failure)
	}
	return &panda.Error{Code: api.CodeSandboxNotRunning, Message: fmt.Sprintf("a sandbox that is %s cannot be %s", record.Status, what)}
}

func diskFull(err error) error {
	var known *panda.Error
	if errors.Is(err, syscall.ENOSPC) && !errors.As(err, &known) {
		return &panda.Error{Code: api.CodeHostDiskFull, Message: "the server's disk is full; nothing was changed", Cause: err}
	}
	return err
}
