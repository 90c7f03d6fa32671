package v1

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"pandastack/api"
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
		if (in.Body.Cmd == "") == (len(in.Body.Argv) == 0) {
			return nil, &panda.Error{
				Code:    api.CodeRequestInvalid,
				Message: "give either cmd or argv",
				Fields:  []api.FieldError{{Path: "body.cmd", Message: "give either cmd or argv"}},
			}
		}
		out, err := h.Sandboxes.Exec(ctx, string(in.ID), in.Body)
		return answer(out, sayTimeout(err))
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
