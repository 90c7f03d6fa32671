package undo

import (
	"context"
	"errors"
	"slices"
	"testing"
)

func TestRunsNewestFirstAndEachOnce(t *testing.T) {
	var got []int
	var s Stack
	for n := range 3 {
		s.Push(func(context.Context) error {
			got = append(got, n)
			return nil
		})
	}
	if err := s.Run(t.Context()); err != nil {
		t.Fatalf("Run: got %v, want nil", err)
	}
	if err := s.Run(t.Context()); err != nil {
		t.Fatalf("second Run: got %v, want nil", err)
	}
	if want := []int{2, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("order: got %v, want %v", got, want)
	}
}

func TestFailedReleaseDoesNotKeepTheOthers(t *testing.T) {
	first, last := errors.New("first"), errors.New("last")
	ran := false
	var s Stack
	s.Push(func(context.Context) error { return first })
	s.Push(func(context.Context) error { ran = true; return nil })
	s.Push(func(context.Context) error { return last })
	err := s.Run(t.Context())
	if !errors.Is(err, first) || !errors.Is(err, last) {
		t.Errorf("Run: got %v, want both errors", err)
	}
	if !ran {
		t.Error("the release between two failing ones did not run")
	}
}
