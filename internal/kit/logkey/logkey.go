// Package logkey has the attribute keys of the logs, so that one thing has one
// name in all of them.
package logkey

// Who and what a line is about.
const (
	Sandbox   = "sandbox"   // its id
	Context   = "context"   // a code context's id
	Execution = "execution" // a cell's id
	Template  = "template"  // its name
	Request   = "request"   // the id of an API request, as in X-Request-Id
)

// What of it.
const (
	Error   = "error"
	Code    = "code" // of package api's registry
	Status  = "status"
	Reason  = "reason"
	MS      = "ms" // how long it took
	Method  = "method"
	Path    = "path"
	Route   = "route"
	Bytes   = "bytes" // of an answer
	Step    = "step"
	Outcome = "outcome"
)
