package harness

import (
	"errors"
	"testing"
	"time"
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
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(atMost)
	for {
		err := state()
		var end never
		if err == nil || errors.As(err, &end) || time.Now().After(deadline) {
			return err
		}
		<-tick.C
	}
}
