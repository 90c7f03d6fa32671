package v1

import (
	"bytes"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"pandastack/api"
	"pandastack/internal/httpapi"
)

type getLogs struct {
	ID     sandboxID `path:"id" doc:"sandbox"`
	Stream string    `query:"stream" default:"both" enum:"console,agent,both,stdout,stderr" doc:"agent, also stderr: what the agent wrote on the serial console; all others: the whole console"`
	Follow bool      `query:"follow" doc:"server-sent events until the machine ends"`
}

func (h *handlers) logs(a huma.API) {
	responses := eventStream("The lines; with follow as events whose data is a `LogLine`")
	responses["200"].Content["text/plain"] = &huma.MediaType{Schema: &huma.Schema{Type: "string"}}
	route(a, huma.Operation{
		OperationID: "get-logs", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/logs",
		Tags: []string{"sandboxes"}, Summary: "Read or follow the machine's log",
		Description: "What the kernel and the agent wrote on the serial console: its beginning and its latest part, at most 768 KiB.",
		Responses:   responses,
	}, h.getLogs)
}

func (h *handlers) getLogs(ctx context.Context, in *getLogs) (*huma.StreamResponse, error) {
	stream := in.Stream
	if stream == "stderr" {
		stream = "agent"
	}
	read := func(sink func(string) error) error {
		return h.Sandboxes.Logs(ctx, string(in.ID), stream, in.Follow, sink)
	}
	return &huma.StreamResponse{Body: func(out huma.Context) {
		r, w := humago.Unwrap(out)
		if in.Follow {
			lines := newEvents(w)
			lines.finish(r, read(func(line string) error { return lines.send("", api.LogLine{Line: line}) }))
			return
		}
		sendLines(w, r, read)
	}}, nil
}

func sendLines(w http.ResponseWriter, r *http.Request, read func(func(string) error) error) {
	var text bytes.Buffer // the log is bounded
	err := read(func(line string) error {
		text.WriteString(line + "\n")
		return nil
	})
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	_, _ = text.WriteTo(w) // who has left does not hear it
}
