//go:build vm

package e2e

import (
	"fmt"
	"testing"
	"time"

	"pandastack/api"
	"pandastack/test/harness"
)

// clockOff is how far a guest's clock may be off after it went on (design §4.5).
const clockOff = 50 * time.Millisecond

// clocks looks at both clocks after every way for a machine to go on.
func clocks(t *testing.T, s *harness.Server) {
	p := newSession(t, s)
	p.run("import time")
	var past monotonic
	p.clock("create", &past)
	must(s.Pause(t.Context(), p.box))(t)
	<-time.After(300 * time.Millisecond) // so that a clock that stood still is noticed
	must(s.Resume(t.Context(), p.box))(t)
	p.clock("resume", &past)
	p.cycle()
	p.clock("wake", &past)
	sn := must(s.TakeSnapshot(t.Context(), p.box, ""))(t)
	taken := past
	p.clock("snapshot, the source", &past)
	forked := must(s.ForkTree(t.Context(), p.box, 1))(t)
	child := past
	p.clock("fork, the source", &past)
	q := &session{s, t, forked.Children[0].ID, p.kernel}
	q.clock("fork, the child", &child)
	s.Remove(t, q.box)
	s.Remove(t, p.box)
	q = p.restored(sn.ID)
	q.clock("restore", &taken)
	s.Remove(t, q.box)
	if err := s.DeleteSnapshot(t.Context(), sn.ID); err != nil {
		t.Errorf("delete the snapshot: %v", err)
	}
}

// monotonic is the guest's other clock when it was last looked at.
type monotonic float64

// clock compares the guest's wall clock with the host's. A call takes time, and the
// guest looked at its clock some time in it: the narrowest of a few counts.
func (p *session) clock(after string, past *monotonic) {
	p.t.Helper()
	const enough = 12
	least, most := -time.Hour, time.Hour // what the guest's clock may be ahead by
	for range enough {
		var wall, now float64
		before := time.Now()
		ex, err := p.Execute(p.t.Context(), p.box, p.kernel, api.Execute{Code: "print(time.time(), time.monotonic())"})
		took := time.Since(before)
		if _, scanned := fmt.Sscan(ex.Stdout, &wall, &now); err != nil || scanned != nil {
			p.t.Fatalf("after %s: %q, %v", after, ex.Stdout, err)
		}
		if monotonic(now) < *past {
			p.t.Errorf("after %s the monotonic clock went back from %f to %f", after, *past, now)
		}
		*past = monotonic(now)
		ahead := time.Duration(wall*1e9) - time.Duration(before.UnixNano()) // since before; at most took if it is right
		least, most = max(least, ahead-took), min(most, ahead)
	}
	if least > clockOff || most < -clockOff {
		p.t.Errorf("after %s the clock is ahead by %v to %v", after, least, most)
	}
	p.t.Logf("after %s the clock is ahead by %v to %v", after, least, most)
}

// TestClockOfReadyMachine looks at it after a claim from the pool.
func TestClockOfReadyMachine(t *testing.T) {
	s := harness.Start(t, harness.NewDir(t), "PANDASTACK_POOL_MAX=1")
	awaitReady(t, s, 1)
	<-time.After(300 * time.Millisecond)
	box := s.NewSandbox(t)
	if box.Start.Kind != "ready" {
		t.Errorf("start: got %s, want ready", box.Start.Kind)
	}
	p := &session{s, t, box.ID, s.NewContext(t, box.ID)}
	p.run("import time")
	p.clock("a claim", new(monotonic))
}
