package shim

import (
	"errors"
	"syscall"

	"pandastack/internal/memimage"
)

// faults are the causes that a server acts on. They cross the socket by name.
var faults = map[string]error{"damaged": memimage.ErrDamaged, "no_space": syscall.ENOSPC}

// faultOf names err's cause, if it is one of faults.
func faultOf(err error) string {
	for name, cause := range faults {
		if errors.Is(err, cause) {
			return name
		}
	}
	return ""
}

// withFault gives an error that crossed the socket its cause again.
func withFault(text, name string) error {
	if cause := faults[name]; cause != nil {
		return &fault{text, cause}
	}
	return errors.New(text)
}

type fault struct {
	text  string
	cause error
}

func (f *fault) Error() string { return f.text }
func (f *fault) Unwrap() error { return f.cause }
