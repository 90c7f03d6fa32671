//go:build vm

package chaos

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pandastack/test/harness"
)

// TestRandomKills kills the server, a shim or a VMM at a random moment of a random
// operation, machines that wait ready among them. What was acknowledged must be
// there afterwards, and nothing else.
func TestRandomKills(t *testing.T) {
	w := newWorld(t, seed(), 2)
	n, goOn := rounds(30, 80*time.Second)
	if err := w.create(); err != nil {
		t.Fatal(err)
	}
	killed := map[string]int{}
	done := 0
	for ; done < n && goOn() && !t.Failed(); done++ {
		killed[w.killDuring(w.pick())]++
		w.afterwards()
		for _, b := range slices.Clone(w.boxes) {
			w.lookPerhaps(b)
		}
	}
	t.Logf("%d kills: %v", done, killed)
	w.end()
}

// lookPerhaps spares time: most of those that would have to boot are removed.
func (w *world) lookPerhaps(b *sandbox) {
	w.t.Helper()
	switch {
	case b.status == "failed" && w.rnd.IntN(4) > 0:
		if err := w.remove(b); err != nil {
			w.t.Errorf("delete a failed sandbox: %v", err)
		}
	case b.lossy || w.rnd.IntN(4) == 0:
		w.look(b)
	}
}

// killDuring does an operation and kills something meanwhile, or shortly after.
func (w *world) killDuring(o operation) (victim string) {
	w.t.Helper()
	victim = []string{"server", "server", "shim", "VMM"}[w.rnd.IntN(4)]
	delay := time.Duration(w.rnd.IntN(700)) * time.Millisecond
	which := w.rnd.Uint64()
	w.note("%s, and after %v kill: %s", o.name, delay, victim)
	killed := make(chan string, 1)
	time.AfterFunc(delay, func() { killed <- w.kill(victim, which) })
	err := o.do(w)
	what := <-killed
	w.note("  %v; killed %s", err, what)
	if victim == "server" {
		<-w.s.Ended()
		return victim
	}
	for _, b := range w.boxes { // it may also have been one that is not known yet
		if b.id == what {
			b.lossy = true
			w.awaitFailure(b)
		}
	}
	return victim
}

// kill ends a process and gives the id of its sandbox, if it has one.
func (w *world) kill(victim string, which uint64) string {
	if victim == "server" {
		_ = syscall.Kill(w.s.PID(), syscall.SIGKILL)
		return victim
	}
	var candidates []harness.Process
	for _, p := range harness.Processes(w.s.Dir) {
		if victim == "VMM" && p.IsVMM() || victim == "shim" && p.IsShim() {
			candidates = append(candidates, p)
		}
	}
	if len(candidates) == 0 {
		return ""
	}
	p := candidates[which%uint64(len(candidates))]
	_ = syscall.Kill(p.PID, syscall.SIGKILL)
	args := strings.Join(p.Args, " ")
	for _, name := range names(w.s.Dir, "runs") {
		if strings.Contains(args, name) {
			return name
		}
	}
	return "one that is gone"
}

// awaitFailure waits until the server knows, if the sandbox still has that machine.
func (w *world) awaitFailure(b *sandbox) {
	harness.Await(w.t, time.Minute, "a killed machine to be noticed", func() error {
		ctx, cancel := w.call()
		defer cancel()
		got, err := w.s.Sandbox(ctx, b.id)
		if err != nil || got.Status != "running" && got.Status != "paused" {
			return nil // settle knows better
		}
		processes := 0
		for _, p := range harness.Processes(w.s.Dir) {
			if strings.Contains(strings.Join(p.Args, " "), b.id) {
				processes++
			}
		}
		if processes == 2 {
			return nil // it has a new machine
		}
		return fmt.Errorf("it is %s", got.Status)
	})
}
