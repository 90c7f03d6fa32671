package v1

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/httpapi"
	"pandastack/internal/panda"
)

type exec struct {
	ID   sandboxID `path:"id" doc:"sandbox"`
	Body api.Exec
}

func (h *handlers) exec(a huma.API) {
	route(a, huma.Operation{
		OperationID: "exec", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/exec",
		MaxBodyBytes: maxCodeBody, Tags: []string{"processes"}, Summary: "Run a process",
		Description: "Answers when the process is done. It is killed when the client leaves.",
	}, func(ctx context.Context, in *exec) (*body[api.ExecResult], error) {
		if err := oneCommand(in.Body); err != nil {
			return nil, err
		}
		out, err := h.Sandboxes.Exec(ctx, string(in.ID), in.Body)
		return answer(out, sayTimeout(err))
	})
	route(a, huma.Operation{
		OperationID: "exec-stream", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/exec/stream",
		MaxBodyBytes: maxCodeBody, Tags: []string{"processes"}, Summary: "Run a process and follow its output",
		Description: "Server-sent events: `stdout` and `stderr` (`ExecChunk`) as output comes, last `exit` (`ExecExit`). " +
			"`error` (`Error`) says what went wrong; after code `exec.timeout` an `exit` follows. " +
			"Without an `exit` it is not known how the process ended. It is killed when the client leaves.",
		Responses: eventStream("Events until the process is done"),
	}, h.execStream)
}

func oneCommand(req api.Exec) error {
	if (req.Cmd == "") == (len(req.Argv) == 0) {
		return invalid("body.cmd", "give either cmd or argv")
	}
	if len(req.Argv) > 0 && req.Argv[0] == "" {
		return invalid("body.argv[0]", "argv names no program")
	}
	return nil
}

func invalid(path, message string) error {
	return &panda.Error{
		Code: api.CodeRequestInvalid, Message: message,
		Fields: []api.FieldError{{Path: path, Message: message}},
	}
}

func (h *handlers) execStream(ctx context.Context, in *exec) (*huma.StreamResponse, error) {
	if err := oneCommand(in.Body); err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(out huma.Context) {
		r, w := humago.Unwrap(out)
		p := &processEvents{out: newEvents(w), limit: in.Body.TimeoutSeconds}
		p.out.finish(r, h.Sandboxes.ExecStream(ctx, string(in.ID), in.Body, p.send))
	}}, nil
}

// processEvents sends a process's events as server-sent ones.
type processEvents struct {
	out            *events
	limit          float64
	stdout, stderr decoder
}

func (p *processEvents) send(e guestproto.ExecEvent) error {
	switch e.Type {
	case guestproto.ExecStdout:
		return p.chunk(e.Type, p.stdout.next(e.Data))
	case guestproto.ExecStderr:
		return p.chunk(e.Type, p.stderr.next(e.Data))
	case guestproto.ExecExit:
		return p.exit(e)
	}
	return nil
}

func (p *processEvents) chunk(name, text string) error {
	if text == "" {
		return nil
	}
	return p.out.send(name, api.ExecChunk{Chunk: text})
}

func (p *processEvents) exit(e guestproto.ExecEvent) error {
	err := errors.Join(p.chunk(guestproto.ExecStdout, p.stdout.end()), p.chunk(guestproto.ExecStderr, p.stderr.end()))
	if err == nil && e.TimedOut {
		err = p.out.send("error", httpapi.ProblemOf(context.Background(), sayTimeout(&panda.Error{
			Code:    api.CodeExecTimeout,
			Message: fmt.Sprintf("the process ran longer than %g s and was killed", p.limit),
			Hint:    "Give a larger timeout_seconds.",
		})))
	}
	if err != nil {
		return err
	}
	return p.out.send("exit", api.ExecExit{
		ExitCode: e.ExitCode, Signal: e.Signal, TimedOut: e.TimedOut, DurationMS: e.DurationMS,
	})
}

// sayTimeout makes sure of the word by which published clients know a timeout.
func sayTimeout(err error) error {
	var e *panda.Error
	if !errors.As(err, &e) || e.Code != api.CodeExecTimeout || strings.Contains(e.Message, "timeout") {
		return err
	}
	said := *e
	said.Message = "timeout: " + e.Message
	return &said
}
