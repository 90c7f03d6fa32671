package v1

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/httpapi"
	"pandastack/internal/panda"
)

// idPattern is what ids are made of. Nothing else in an id's place reaches a
// service, least of all a slash that came percent-encoded.
var idPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func refuseID(ctx huma.Context, id, code, noun string) []error {
	if idPattern.MatchString(id) {
		return nil
	}
	err := &panda.Error{Code: code, Message: fmt.Sprintf("no %s has the id %.80q", noun, id)}
	return []error{httpapi.ProblemOf(ctx.Context(), err)}
}

type (
	sandboxID   string
	contextID   string
	executionID string
	filePath    string
)

func (id *sandboxID) Resolve(ctx huma.Context) []error {
	return refuseID(ctx, string(*id), api.CodeSandboxNotFound, "sandbox")
}

func (id *contextID) Resolve(ctx huma.Context) []error {
	return refuseID(ctx, string(*id), api.CodeContextNotFound, "context")
}

func (id *executionID) Resolve(ctx huma.Context) []error {
	return refuseID(ctx, string(*id), api.CodeExecutionNotFound, "execution")
}

func (p *filePath) Resolve(ctx huma.Context) []error {
	s := string(*p)
	if s == "" || len(s) <= guestproto.MaxPath && utf8.ValidString(s) && !strings.ContainsRune(s, 0) {
		return nil // that it is missing was said already
	}
	err := &panda.Error{Code: api.CodeFilePathInvalid, Message: "the path is too long, not UTF-8, or has a NUL character"}
	return []error{httpapi.ProblemOf(ctx.Context(), err)}
}

// snapshotID is an id or a name.
type snapshotID string

var snapshotPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (id *snapshotID) Resolve(ctx huma.Context) []error {
	if snapshotPattern.MatchString(string(*id)) {
		return nil
	}
	err := &panda.Error{Code: api.CodeSnapshotNotFound, Message: fmt.Sprintf("no snapshot has the id or name %.80q", string(*id))}
	return []error{httpapi.ProblemOf(ctx.Context(), err)}
}

// inSandbox is the input of a call on one sandbox.
type inSandbox struct {
	ID sandboxID `path:"id" doc:"sandbox"`
}

// inContext is the input of a call on one context.
type inContext struct {
	ID      sandboxID `path:"id" doc:"sandbox"`
	Context contextID `path:"context" doc:"context"`
}

// atPath is the input of a call on one file or folder.
type atPath struct {
	ID   sandboxID `path:"id" doc:"sandbox"`
	Path filePath  `query:"path" required:"true" doc:"absolute, or below /workspace"`
}
