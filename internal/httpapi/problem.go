package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"pandastack/api"
	"pandastack/internal/panda"
)

// Problem is an error on its way to the client. It is what a handler of package
// huma returns: huma asks it for its status and headers and writes its JSON.
type Problem struct {
	Body       api.Error
	Status     int
	RetryAfter time.Duration
}

func (p *Problem) Error() string { return p.Body.Error }

// GetStatus gives the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders gives the headers that go with the body.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.RetryAfter.Seconds()))))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	return h
}

// MarshalJSON writes the envelope.
func (p *Problem) MarshalJSON() ([]byte, error) { return json.Marshal(p.Body) }

// ProblemOf turns any error into what its caller may see, and keeps the cause
// for the request's line in the log. An error that carries no code says
// nothing but "internal".
func ProblemOf(ctx context.Context, err error) *Problem {
	Note(ctx, err)
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	var known *panda.Error
	if !errors.As(err, &known) {
		known = &panda.Error{Code: api.CodeInternal, Message: "the server failed on this request"}
	}
	return problem(known)
}

func problem(e *panda.Error) *Problem {
	entry := api.Lookup(e.Code)
	hint := e.Hint
	if hint == "" {
		hint = entry.Hint
	}
	retry := e.RetryAfter
	if retry == 0 && entry.Status == http.StatusServiceUnavailable {
		retry = time.Second // clients wait only when told how long
	}
	return &Problem{
		Body:       api.Error{Error: e.Message, Code: entry.Code, Hint: hint, Fields: e.Fields, Detail: e.Detail},
		Status:     entry.Status,
		RetryAfter: retry,
	}
}

// WriteError answers a request with err's envelope.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	p := ProblemOf(r.Context(), err)
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p.Body) // the client is gone if this fails
}

// humaProblem is what package huma calls for the errors it finds itself: bodies
// that are not JSON, too large, or not of the call's shape.
func humaProblem(ctx context.Context, status int, message string, causes ...error) huma.StatusError {
	var p *Problem
	if errors.As(errors.Join(causes...), &p) { // a resolver's own verdict
		return p
	}
	e := refusal(status, message, causes)
	noted := *e
	if e.Code == api.CodeInternal {
		noted.Cause = errors.Join(causes...)
	}
	Note(ctx, &noted) // and not what the body was, which may be large, and secret
	return problem(e)
}

func refusal(status int, message string, causes []error) *panda.Error {
	e := &panda.Error{Code: api.CodeInternal, Message: "the server failed on this request"}
	switch status {
	case http.StatusBadRequest:
		e.Code, e.Message = api.CodeRequestBadJSON, "the body is not JSON as this server takes it"
		if len(causes) == 0 {
			e.Message = message
		}
	case http.StatusUnprocessableEntity:
		e.Code, e.Message = api.CodeRequestInvalid, "the request is not of this call's shape"
	case http.StatusRequestEntityTooLarge:
		e.Code, e.Message = api.CodeRequestTooLarge, message
	case http.StatusRequestTimeout:
		e.Code, e.Message = api.CodeRequestTimeout, message
	}
	if e.Code == api.CodeInternal {
		return e
	}
	for _, cause := range causes[:min(len(causes), maxFields)] {
		e.Fields = append(e.Fields, field(cause))
	}
	if len(e.Fields) > 0 {
		e.Message += ": " + describe(e.Fields[0])
	}
	return e
}

func describe(f api.FieldError) string {
	if f.Path == "" || f.Path == "body" {
		return f.Message
	}
	return f.Path + ": " + f.Message
}

func field(err error) api.FieldError {
	var d huma.ErrorDetailer
	if errors.As(err, &d) {
		detail := d.ErrorDetail()
		return api.FieldError{Path: clip(detail.Location), Message: clip(detail.Message)}
	}
	return api.FieldError{Message: clip(err.Error())}
}

// What an answer tells of a bad request is bounded, however large that was.
const (
	maxFields = 32
	maxTold   = 300 // bytes of a field's name or of what is wrong with it
)

func clip(s string) string {
	if len(s) <= maxTold {
		return s
	}
	return strings.ToValidUTF8(s[:maxTold], "") + "…"
}

// Package huma has one hook for the shape of its own errors, and it is global;
// so is whether a list may be null, which here none is.
func init() {
	huma.DefaultArrayNullable = false
	huma.NewError = func(status int, message string, causes ...error) huma.StatusError {
		return humaProblem(context.Background(), status, message, causes...)
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, causes ...error) huma.StatusError {
		if ctx == nil {
			return huma.NewError(status, message, causes...)
		}
		return humaProblem(ctx.Context(), status, message, causes...)
	}
}
