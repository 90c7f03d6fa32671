package sandbox

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/kit/logkey"
	"pandastack/internal/panda"
)

// subject is what a call to the agent is about.
type subject int

const (
	aboutContext    subject = iota
	aboutNewContext         // which is not there yet, so what is missing is its working directory
	aboutExecution
	aboutProcess
	aboutFile
)

// refused gives the agent's refusal a code of the API.
func refused(about subject, refusal *guestproto.Error) *panda.Error {
	return &panda.Error{
		Code:    codeOf(about, refusal.Code),
		Message: shorten(refusal.Message, 512),
		Cause:   refusal,
	}
}

// withLoss says of a context or an execution that is missing where it went, if its
// sandbox lost its memory.
func (s *Service) withLoss(in session, err *panda.Error) error {
	if err.Code != api.CodeContextNotFound && err.Code != api.CodeExecutionNotFound {
		return err
	}
	if lost := s.status(in.live).Start.Lost; lost != "" {
		err.Message += "; the sandbox was booted from its disk, and what was in its " + lost + " is lost"
	}
	return err
}

// codeOf is the table of the agent's codes. What it does not have is internal:
// a code that only a newer or a hostile agent sends.
func codeOf(about subject, code string) string {
	switch code {
	case guestproto.CodeIsDirectory:
		return api.CodeFileIsDirectory
	case guestproto.CodeNotDir:
		return api.CodeFileNotDirectory
	case guestproto.CodePathEscape:
		return api.CodeFilePathInvalid
	case guestproto.CodePermission:
		return api.CodeFilePermission
	case guestproto.CodeLimit:
		if about == aboutNewContext {
			return api.CodeContextLimit
		}
		return api.CodeContextQueueFull
	case guestproto.CodeBusy:
		return api.CodeContextBusy
	case guestproto.CodeRefused:
		return api.CodeContextNoAnswer
	case guestproto.CodeConflict:
		return api.CodeExecutionNoInput
	case guestproto.CodeExists:
		return api.CodeExecutionTaken
	case guestproto.CodeNoSpace:
		return api.CodeFileNoSpace
	case guestproto.CodeInvalid:
		if about == aboutFile {
			return api.CodeFilePathInvalid
		}
		return api.CodeRequestInvalid
	case guestproto.CodeNotFound:
		switch about {
		case aboutContext:
			return api.CodeContextNotFound
		case aboutExecution:
			return api.CodeExecutionNotFound
		}
		return api.CodeFileNotFound // a process: its program or its working directory
	case guestproto.CodeInternal:
		if about == aboutFile { // the guest's file system failed on it, not the server
			return api.CodeFilePathInvalid
		}
	case guestproto.CodeUnsupported:
		if about == aboutNewContext {
			return api.CodeContextUnsupportedLanguage
		}
		return api.CodeFeatureNotOffered
	}
	return api.CodeInternal
}

func failed(failure string) *panda.Error {
	return &panda.Error{Code: api.CodeSandboxFailed, Message: failure}
}

func invalid(path, message string) error {
	return &panda.Error{
		Code:    api.CodeRequestInvalid,
		Message: path + ": " + message,
		Fields:  []api.FieldError{{Path: path, Message: message}},
	}
}

// startError is what the caller of a failed Create gets. cause is why its
// context ended, or nil.
func startError(id string, cause, err error) error {
	var known *panda.Error
	switch {
	case errors.Is(cause, errDeleted):
		return &panda.Error{Code: api.CodeSandboxNotFound, Message: errDeleted.Error(), Cause: err}
	case errors.Is(cause, errClosing):
		return shuttingDown()
	case cause != nil:
		return fmt.Errorf("the caller left: %w", cause)
	case errors.As(err, &known):
		return err
	case errors.Is(err, syscall.ENOSPC):
		return &panda.Error{Code: api.CodeHostDiskFull, Message: "the server's disk is full", Cause: err}
	}
	return fmt.Errorf("create sandbox %s: %w", id, err)
}

func shuttingDown() error {
	return &panda.Error{Code: api.CodeSandboxCapacity, Message: errClosing.Error(), RetryAfter: 5 * time.Second}
}

// startFailed is what came of a launch, with where its logs are, for the run
// folder goes. What says more, such as a missing VMM, stays as it is.
func (b *birth) startFailed(ctx context.Context, err error) error {
	var known *panda.Error
	if ctx.Err() != nil || errors.Is(err, syscall.ENOSPC) {
		return err
	}
	if errors.As(err, &known) && known.Code != api.CodeSandboxStartFailed {
		return err
	}
	logs, kept := b.s.keepLogs(b.l)
	if kept != nil {
		b.s.cfg.Log.Warn("keep the logs of a failed start", logkey.Sandbox, b.l.id, logkey.Error, kept)
	}
	message := "the virtual machine did not come up"
	if logs != "" {
		message += "; its logs are in " + logs
	}
	return &panda.Error{Code: api.CodeSandboxStartFailed, Message: message, Cause: err}
}
