package guestproto

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Error is a refusal by the guest.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Message }

// Error codes. Status gives the HTTP status each travels under.
const (
	CodeInvalid     = "invalid"      // 400
	CodeNotFound    = "not_found"    // 404
	CodeExists      = "exists"       // 409
	CodeIsDirectory = "is_directory" // 409
	CodeNotDir      = "not_directory"
	CodePathEscape  = "path_escape" // 403
	CodePermission  = "permission"  // 403
	CodeNoSpace     = "no_space"    // 507
	CodeUnsupported = "unsupported" // 501
	CodeLimit       = "limit"       // 409: as many as there may be
	CodeBusy        = "busy"        // 409: a cell runs
	CodeConflict    = "conflict"    // 409: not in this state
	CodeRefused     = "refused"     // 422: by the kernel
	CodeInternal    = "internal"    // 500
	// CodeBroken is not the agent's: the stream to it broke during the call.
	CodeBroken = "broken" // 502
	// CodeNoLane is between the agent and Client, which then does without.
	CodeNoLane = "no_lane" // 409
)

var codeStatus = map[string]int{
	CodeInvalid:     http.StatusBadRequest,
	CodeNotFound:    http.StatusNotFound,
	CodeExists:      http.StatusConflict,
	CodeIsDirectory: http.StatusConflict,
	CodeNotDir:      http.StatusConflict,
	CodePathEscape:  http.StatusForbidden,
	CodePermission:  http.StatusForbidden,
	CodeNoSpace:     http.StatusInsufficientStorage,
	CodeUnsupported: http.StatusNotImplemented,
	CodeLimit:       http.StatusConflict,
	CodeBusy:        http.StatusConflict,
	CodeRefused:     http.StatusUnprocessableEntity,
	CodeConflict:    http.StatusConflict,
	CodeInternal:    http.StatusInternalServerError,
	CodeBroken:      http.StatusBadGateway,
	CodeNoLane:      http.StatusConflict,
}

// Status is the HTTP status that an error code travels under; 500 for one that
// is not known.
func Status(code string) int {
	if s, ok := codeStatus[code]; ok {
		return s
	}
	return http.StatusInternalServerError
}

// Errorf makes a refusal.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// asError turns any error into one that may travel.
func asError(err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: CodeInternal, Message: "the caller went away"}
	case errors.Is(err, ErrBroken):
		return &Error{Code: CodeBroken, Message: err.Error()}
	}
	return &Error{Code: CodeInternal, Message: err.Error()}
}
