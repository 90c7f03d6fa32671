package harness

import (
	"errors"
	"testing"
	"time"
)

// Pauses between two looks: short at first, for states that pass.
const (
	quickest = 5 * time.Millisecond
	slowest  = 200 * time.Millisecond
)

// never marks a state that will not come.
type never struct{ error }

// Never makes Await give up at once.
func Never(err error) error { return never{err} }

// Await looks again and again until state finds nothing wrong.
func Await(t testing.TB, atMost time.Duration, what string, state func() error) {
	t.Helper()
	if err := await(atMost, state); err != nil {
		t.Fatalf("waited for %s: %v", what, err)
	}
}

func await(atMost time.Duration, state func() error) error {
	deadline := time.Now().Add(atMost)
	for pause := quickest; ; pause = min(2*pause, slowest) {
		err := state()
		var end never
		if err == nil || errors.As(err, &end) || time.Now().After(deadline) {
			return err
		}
		<-time.After(pause)
	}
}
