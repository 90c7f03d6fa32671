package v1

import (
	"context"
	"net/http"

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
		return answer(h.Sandboxes.Exec(ctx, string(in.ID), in.Body))
	})
}
