// Package undo takes back, in reverse order, what a function has acquired when
// a later step of it fails.
package undo

import (
	"context"
	"errors"
)

// Stack collects releases. The zero value is ready; it is for one goroutine.
type Stack struct {
	releases []func(context.Context) error
}

// Push adds the release of what was just acquired.
func (s *Stack) Push(release func(context.Context) error) {
	s.releases = append(s.releases, release)
}

// Run calls every release, the newest first and each once, and joins their
// errors: one that fails does not keep the others from running. A second Run
// does nothing. ctx should outlive the request that failed, which may have
// failed by being cancelled.
func (s *Stack) Run(ctx context.Context) error {
	var errs []error
	for len(s.releases) > 0 {
		last := len(s.releases) - 1
		release := s.releases[last]
		s.releases = s.releases[:last]
		errs = append(errs, release(ctx))
	}
	return errors.Join(errs...)
}
