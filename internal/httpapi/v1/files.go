package v1

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"pandastack/api"
	"pandastack/internal/httpapi"
)

const (
	// copyBuffer is large because each write crosses two sockets.
	copyBuffer = 1 << 20
	// maxRefused bytes of a refused upload are read and thrown away, so that a
	// client that sends before it listens still hears why.
	maxRefused = 64 << 20
)

// putFile keeps the request instead of its body, which may be of any size.
type putFile struct {
	ID      sandboxID `path:"id" doc:"sandbox"`
	Path    filePath  `query:"path" required:"true" doc:"absolute, or below /workspace"`
	request *http.Request
}

func (p *putFile) Resolve(ctx huma.Context) []error {
	p.request, _ = humago.Unwrap(ctx)
	return nil
}

func binary() map[string]*huma.MediaType {
	return map[string]*huma.MediaType{
		"application/octet-stream": {Schema: &huma.Schema{Type: "string", Format: "binary"}},
	}
}

func (h *handlers) files(a huma.API) {
	route(a, huma.Operation{
		OperationID: "read-file", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/fs",
		Tags: []string{"files"}, Summary: "Read a file",
		Responses: map[string]*huma.Response{"200": {Description: "The file's bytes", Content: binary()}},
	}, h.readFile)
	route(a, huma.Operation{
		OperationID: "write-file", Method: http.MethodPut, Path: "/v1/sandboxes/{id}/fs",
		Tags: []string{"files"}, Summary: "Write a file",
		Description: "The old content stays until all of the new one is on the sandbox's disk. Missing parent folders are made.",
		RequestBody: &huma.RequestBody{Required: true, Content: binary()},
	}, h.writeFile)
	route(a, huma.Operation{
		OperationID: "list-dir", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/fs/dir",
		Tags: []string{"files"}, Summary: "List a folder",
	}, func(ctx context.Context, in *atPath) (*body[api.Directory], error) {
		entries, err := h.Sandboxes.ListDir(ctx, string(in.ID), string(in.Path))
		return answer(api.Directory{Entries: list(entries)}, err)
	})
	route(a, huma.Operation{
		OperationID: "stat-file", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/fs/stat",
		Tags: []string{"files"}, Summary: "Describe a file or folder",
	}, func(ctx context.Context, in *atPath) (*body[api.FileInfo], error) {
		return answer(h.Sandboxes.Stat(ctx, string(in.ID), string(in.Path)))
	})
}

func (h *handlers) readFile(ctx context.Context, in *atPath) (*huma.StreamResponse, error) {
	info, content, err := h.Sandboxes.ReadFile(ctx, string(in.ID), string(in.Path))
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(out huma.Context) {
		defer content.Close()
		out.SetHeader("Content-Type", "application/octet-stream")
		out.SetHeader("Content-Length", strconv.FormatInt(info.Size, 10))
		out.SetHeader("Last-Modified", time.Unix(info.MTime, 0).UTC().Format(http.TimeFormat))
		out.SetStatus(http.StatusOK)
		if out.Method() == http.MethodHead {
			return
		}
		n, err := io.CopyBuffer(out.BodyWriter(), content, make([]byte, copyBuffer))
		if err == nil && n == info.Size {
			return
		}
		httpapi.Note(ctx, fmt.Errorf("send file: %d of %d bytes: %w", n, info.Size, cause(err)))
		panic(http.ErrAbortHandler) // a cut connection is how a client learns that it is not all
	}}, nil
}

func cause(err error) error {
	if err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (h *handlers) writeFile(ctx context.Context, in *putFile) (*body[api.FileWritten], error) {
	r := in.request
	written, err := h.Sandboxes.WriteFile(ctx, string(in.ID), string(in.Path), r.ContentLength, r.Body)
	if err != nil && r.Header.Get("Expect") == "" {
		_, _ = io.CopyN(io.Discard, r.Body, maxRefused)
	}
	return answer(written, err)
}
