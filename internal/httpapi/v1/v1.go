// Package v1 is REST v1: the routes under /v1, their OpenAPI document, and the
// thin doors for PandaStack's published clients. It translates; it holds no
// state and decides nothing.
package v1

import (
	"context"
	"io"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/httpapi"
	"pandastack/internal/panda"
)

// Sandboxes is what the routes need of the sandbox service. Errors a caller may
// see are *panda.Error.
type Sandboxes interface {
	Create(ctx context.Context, req api.CreateSandbox) (panda.Sandbox, error)
	Get(ctx context.Context, id string) (panda.Sandbox, error)
	List(ctx context.Context) ([]panda.Sandbox, error)
	Delete(ctx context.Context, id string) error
	// Look tells what a sandbox uses, or has on disk.
	Look(ctx context.Context, id string) (panda.Seen, error)
	Lifecycle(ctx context.Context, id string) (api.Lifecycle, error)
	SetLifecycle(ctx context.Context, id string, req api.SetLifecycle) (api.Lifecycle, error)
	Pause(ctx context.Context, id string) (panda.Sandbox, error)
	Hibernate(ctx context.Context, id string) (panda.Sandbox, error)
	// Wake makes a paused or hibernated sandbox run; from is memory (or "") or disk.
	Wake(ctx context.Context, id, from string) (panda.Sandbox, error)
	TakeSnapshot(ctx context.Context, id string, req api.TakeSnapshot) (panda.Snapshot, error)
	Snapshots(ctx context.Context, sandboxID string) ([]panda.Snapshot, error)
	Snapshot(ctx context.Context, idOrName string) (panda.Snapshot, error)
	DeleteSnapshot(ctx context.Context, idOrName string) error
	Fork(ctx context.Context, id string, req api.ForkTree) (tree string, children []panda.Sandbox, err error)
	Promote(ctx context.Context, id string, req api.Promote) (api.Promoted, error)
	// Logs calls sink with each line of stream; with follow until the machine ends.
	Logs(ctx context.Context, id, stream string, follow bool, sink func(line string) error) error

	CreateContext(ctx context.Context, id string, req api.CreateContext) (api.Context, error)
	Contexts(ctx context.Context, id string) ([]api.Context, error)
	Context(ctx context.Context, id, contextID string) (api.Context, error)
	DeleteContext(ctx context.Context, id, contextID string) error
	Interrupt(ctx context.Context, id, contextID string) error

	RestartContext(ctx context.Context, id, contextID string) (api.Context, error)
	Complete(ctx context.Context, id, contextID string, req api.Complete) (api.Completion, error)
	Inspect(ctx context.Context, id, contextID string, req api.Inspect) (api.Inspection, error)
	IsComplete(ctx context.Context, id, contextID string, req api.IsComplete) (api.Completeness, error)
	History(ctx context.Context, id, contextID string, n int) (api.History, error)

	// Execute returns when the cell is done, Run calls sink with its events until then, and Queue
	// returns at once. The cell goes on when ctx ends first.
	Execute(ctx context.Context, id, contextID string, req api.Execute) (api.Execution, error)
	Run(ctx context.Context, id, contextID string, req api.Execute, sink func(api.ExecutionEvent) error) error
	Queue(ctx context.Context, id, contextID string, req api.Execute) (api.ExecutionInfo, error)
	Execution(ctx context.Context, id, executionID string, o *api.OutputBudget) (api.Execution, error)
	Executions(ctx context.Context, id, contextID string) ([]api.ExecutionInfo, error)
	// Follow calls sink with an execution's events.
	Follow(ctx context.Context, id, executionID string, how api.Follow, sink func(api.ExecutionEvent) error) error
	// Output calls write with all that was printed to stdout or stderr by now.
	Output(ctx context.Context, id, executionID, stream string, write func(text string) error) error
	CancelExecution(ctx context.Context, id, executionID string) error
	Input(ctx context.Context, id, executionID, text string) error

	// Exec kills the process when ctx ends.
	Exec(ctx context.Context, id string, req api.Exec) (api.ExecResult, error)
	// ExecStream calls sink with the output as it comes and last with the exit.
	ExecStream(ctx context.Context, id string, req api.Exec, sink func(guestproto.ExecEvent) error) error

	ReadFile(ctx context.Context, id, path string) (guestproto.FileInfo, io.ReadCloser, error)
	// WriteFile takes size -1 where it is not known.
	WriteFile(ctx context.Context, id, path string, size int64, body io.Reader) (api.FileWritten, error)
	ListDir(ctx context.Context, id, path string) ([]api.FileInfo, error)
	Stat(ctx context.Context, id, path string) (api.FileInfo, error)
}

// Templates is what the routes need of the template catalogue.
type Templates interface {
	List(ctx context.Context) ([]api.Template, error)
	Get(ctx context.Context, name string) (api.Template, error)
}

// Node is what the routes need to know of the machine they run on.
type Node interface {
	Health(ctx context.Context) (api.Health, error)
	Version() api.Version
}

// Services is everything behind the routes.
type Services struct {
	Sandboxes Sandboxes
	Templates Templates
	Node      Node
}

// Body limits. Cells and files that travel as text in JSON may be large.
const (
	maxBody     = 1 << 20
	maxCodeBody = 16 << 20
)

type handlers struct{ Services }

// Register adds the routes to mux and gives their OpenAPI document, which is
// also served at /openapi.json.
func Register(mux *httpapi.Mux, services Services) ([]byte, error) {
	a := humago.New(mux, config())
	h := &handlers{services}
	h.sandboxes(a)
	h.lifecycle(a)
	h.snapshots(a)
	h.forks(a)
	h.logs(a)
	h.contexts(a)
	h.executions(a)
	h.questions(a)
	h.exec(a)
	h.files(a)
	h.templates(a)
	h.node(a)
	h.repl(a)
	notOffered(mux)
	return serveDocument(mux, a)
}

// Document gives the OpenAPI document of the routes.
func Document() ([]byte, error) { return Register(&httpapi.Mux{}, Services{}) }

// config leaves out what huma would add by itself: documentation pages, schema
// links in answers, formats other than JSON.
func config() huma.Config {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	registry.RegisterTypeAlias(reflect.TypeFor[httpapi.Problem](), reflect.TypeFor[api.Error]())
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title:       "PandaStack",
				Version:     "v1",
				Description: "Code interpreters in microVMs. A cell that raises or runs into its limit is a 200 whose `error` says so; every other failure has the body `Error`.",
				License:     &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
			},
			Components: &huma.Components{
				Schemas:         registry,
				SecuritySchemes: map[string]*huma.SecurityScheme{"key": {Type: "http", Scheme: "bearer"}},
			},
			Security: []map[string][]string{{"key": {}}},
		},
		Formats:       map[string]huma.Format{"application/json": jsonFormat()},
		DefaultFormat: "application/json",
	}
}

// none is the input or output of a call that has none.
type none struct{}

// body wraps an answer of any type.
type body[T any] struct{ Body T }

func answer[T any](v T, err error) (*body[T], error) {
	if err != nil {
		return nil, err
	}
	return &body[T]{Body: v}, nil
}

// route registers a call whose errors are those of package panda.
func route[I, O any](a huma.API, op huma.Operation, handler func(context.Context, *I) (*O, error)) {
	op.BodyReadTimeout = -1 // a deadline set here would end the wait for a long cell; httpapi has its own
	if op.MaxBodyBytes == 0 {
		op.MaxBodyBytes = maxBody
	}
	op.Middlewares = append(op.Middlewares, asJSON)
	huma.Register(a, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handler(ctx, in)
		if err != nil {
			return nil, httpapi.ProblemOf(ctx, err)
		}
		return out, nil
	})
}

// asJSON takes a body as JSON whatever its type says, because curl -d says it
// is a form. No browser can be tricked by that: it would need the key.
func asJSON(ctx huma.Context, next func(huma.Context)) {
	r, _ := humago.Unwrap(ctx)
	r.Header.Set("Content-Type", "application/json")
	next(ctx)
}

// list is never null in JSON.
func list[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}
