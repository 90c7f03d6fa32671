//go:build vm

package chaos

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// From the environment: how much is done (unset is CI's short form) and from which
// random numbers.
const (
	roundsEnv = "PANDASTACK_CHAOS_N"
	seedEnv   = "PANDASTACK_CHAOS_SEED"
)

// rounds is how often something is done: short, or what was asked for; budget bounds
// the short form on a slow machine.
func rounds(short int, budget time.Duration) (n int, goOn func() bool) {
	if n, err := strconv.Atoi(os.Getenv(roundsEnv)); err == nil {
		return n, func() bool { return true }
	}
	end := time.Now().Add(budget)
	return short, func() bool { return time.Now().Before(end) }
}

func seed() uint64 {
	if n, err := strconv.ParseUint(os.Getenv(seedEnv), 10, 64); err == nil {
		return n
	}
	return uint64(time.Now().UnixNano())
}

// TestRandomOperations compares random sequences with the model, over restarts of
// the server.
func TestRandomOperations(t *testing.T) {
	w := newWorld(t, seed(), 0)
	n, goOn := rounds(60, 50*time.Second)
	done := 0
	for ; done < n && goOn() && !t.Failed(); done++ {
		if w.rnd.IntN(20) == 0 {
			w.note("stop and start the server")
			w.restart()
			w.settle()
			w.tidy()
		}
		o := w.pick()
		w.note("%s", o.name)
		if err := o.do(w); err != nil {
			t.Errorf("%s: %s %v", o.name, codeOf(err), err)
		}
	}
	t.Logf("%d operations", done)
	w.end()
}

// end looks at everything once more.
func (w *world) end() {
	w.t.Helper()
	if w.t.Failed() {
		return
	}
	w.settle()
	w.tidy()
	for _, b := range w.boxes {
		w.look(b)
	}
	for _, sn := range w.snaps {
		if err := w.restoreOf(sn); err != nil {
			w.t.Errorf("restore: %s %v", codeOf(err), err)
		}
	}
}

// afterwards restores the world's order after something was killed: the server is
// started if it is dead, and what the model knows must be there.
func (w *world) afterwards() {
	w.t.Helper()
	select {
	case <-w.s.Ended():
		w.restart()
	default:
	}
	w.settle()
	w.tidy()
}
