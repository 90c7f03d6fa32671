//go:build vm

package chaos

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pandastack/internal/kit/failpoint"
	"pandastack/test/harness"
)

type step struct {
	name string
	do   func(*world) error
}

// sequence passes every point of an operation's way at least once.
var sequence = []step{
	{"create", (*world).create},
	{"snapshot", onLast((*world).snapshot)},
	{"count", onLast((*world).countOnce)},
	{"pause", onLast((*world).pause)},
	{"resume", onLast((*world).resume)},
	{"hibernate", onLast((*world).hibernate)},
	{"wake", onLast((*world).wake)},
	{"snapshot", onLast((*world).snapshot)},
	{"fork", onLast((*world).fork)},
	{"delete", onLast((*world).remove)},
	{"restore", (*world).restore},
	{"delete snapshot", (*world).removeSnapshot},
	{"hibernate", onLast((*world).hibernate)},
	{"delete", onLast((*world).remove)},
}

func onLast(do func(*world, *sandbox) error) func(*world) error {
	return func(w *world) error {
		if len(w.boxes) == 0 {
			return nil
		}
		return do(w, w.boxes[len(w.boxes)-1])
	}
}

// TestFailpoints kills server or shim at every point that the sequence passes, each
// once, beside a sandbox that must not notice.
func TestFailpoints(t *testing.T) {
	w := newWorld(t, seed(), 0)
	if err := w.create(); err != nil {
		t.Fatal(err)
	}
	keeper := w.boxes[0]
	points := w.trace()
	w.rnd.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	// In the short form every name comes once, and then as many others as there is time for.
	seen := map[string]bool{}
	first := func(p point) int {
		defer func() { seen[p.name] = true }()
		if seen[p.name] {
			return 1
		}
		return 0
	}
	order := make(map[point]int, len(points))
	for _, p := range points {
		order[p] = first(p)
	}
	slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(order[a], order[b]) })
	_, goOn := rounds(0, 80*time.Second)
	done := 0
	for _, p := range points {
		if order[p] > 0 && !goOn() || t.Failed() {
			break
		}
		done++
		w.dieAt(p, keeper)
	}
	t.Logf("%d of %d points, %d names: %v", done, len(points), len(seen), points)
}

// point is the nth hit of a name in one process.
type point struct {
	name string
	nth  int
}

func (p point) String() string { return fmt.Sprintf("%s:%d", p.name, p.nth) }

func (p point) ofShim() bool { return strings.HasPrefix(p.name, "shim/") }

// trace runs the sequence once and gives the points it passes.
func (w *world) trace() []point {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "trace")
	w.restart(failpoint.Env + "=trace=" + path)
	if err := w.run(sequence); err != nil {
		w.t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	hits, most := map[string]int{}, map[string]int{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		_, name, _ := strings.Cut(line, " ")
		hits[line]++
		most[name] = max(most[name], hits[line])
	}
	var points []point
	for name, n := range most {
		for i := range n {
			points = append(points, point{name, i + 1})
		}
	}
	slices.SortFunc(points, func(a, b point) int { return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(a.nth, b.nth)) })
	return points
}

// run does the steps until one fails.
func (w *world) run(steps []step) error {
	for _, s := range steps {
		w.note("  %s", s.name)
		if err := s.do(w); err != nil {
			w.note("  %v", err)
			return fmt.Errorf("%s: %s %w", s.name, codeOf(err), err)
		}
	}
	return nil
}

// dieAt runs the sequence up to where it is cut off at p, and looks at what is left.
func (w *world) dieAt(p point, keeper *sandbox) {
	w.t.Helper()
	w.note("die at %v", p)
	w.s.Stop(w.t)
	var err error
	if w.s, err = harness.TryStart(w.t, w.s.Dir, failpoint.Env+"="+p.String()); err == nil {
		err = w.run(sequence)
	}
	if err == nil && !p.ofShim() { // after the last step, where the server still works
		w.s.Kill(w.t)
	}
	for _, b := range w.boxes {
		b.lossy = b != keeper && p.ofShim()
	}
	if p.ofShim() {
		w.s.Stop(w.t) // and with it the point
	}
	w.restart()
	w.settle()
	w.tidy()
	for _, b := range slices.Clone(w.boxes) {
		if b.status != "failed" || w.rnd.IntN(8) == 0 { // which has to boot
			w.look(b)
		}
		if b != keeper {
			if err := w.remove(b); err != nil {
				w.t.Errorf("delete after %v: %v", p, err)
			}
		}
	}
	for _, sn := range slices.Clone(w.snaps) {
		if err := w.restoreOf(sn); err != nil {
			w.t.Errorf("restore after %v: %s %v", p, codeOf(err), err)
		} else if err := onLast((*world).remove)(w); err != nil {
			w.t.Errorf("delete after %v: %v", p, err)
		}
		if err := w.removeSnapshotOf(sn); err != nil {
			w.t.Errorf("delete snapshot after %v: %v", p, err)
		}
	}
	w.tidy()
	if w.t.Failed() {
		w.t.Errorf("killed at %v", p)
	}
}
