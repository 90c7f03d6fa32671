package sandbox

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"pandastack/api"
	"pandastack/internal/panda"
	"pandastack/internal/shim"
)

// pooled is a node with a pool of at most max, of which one is made at once.
func pooled(t *testing.T, max int) *node {
	t.Helper()
	return newNode(t, func(c *Config) { c.Pool = Pool{Max: max, First: []string{defaultTemplate}} })
}

// awaitReady waits until the pool holds n machines, or what it wants for n < 0.
func (n *node) awaitReady(want int) {
	n.t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		p := n.svc.Pool()
		if want < 0 && p.Ready >= p.Wanted || p.Ready == want {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			n.t.Fatalf("the pool is %+v, want %d ready", p, want)
		}
	}
}

func TestCreateTakesAReadyMachine(t *testing.T) {
	n := pooled(t, 1)
	n.awaitReady(1)
	if all, _ := n.svc.List(t.Context()); len(all) != 0 {
		t.Errorf("a ready machine is listed: %v", all)
	}
	sb := n.create()
	if sb.Start.Kind != "ready" || sb.Status != panda.Running || sb.MemoryMB != 1024 || sb.Isolation != "emulated-vm+jail" {
		t.Errorf("got %+v", sb)
	}
	resumes := n.machine(sb.ID).resumed
	if len(resumes) != 2 || resumes[1].Reseed || resumes[1].MachineID != "" {
		t.Fatalf("resumes: got %+v, want one that makes it the sandbox and one at its claim that does not", resumes)
	}
	resumed := resumes[0]
	if !resumed.Reseed || len(resumed.Seed) != 64 || resumed.Hostname != "sandbox-"+sb.ID[:8] {
		t.Errorf("resume: got %+v", resumed)
	}
	if spec := n.starter.specs[0]; spec.ID != sb.ID || spec.Nice == 0 || string(resumed.Seed) == string(spec.Resume.Seed) {
		t.Errorf("spec: got %+v", spec)
	}
	stored, err := n.records.Get(t.Context(), sb.ID)
	if err != nil || stored.Status != panda.Running {
		t.Errorf("record: got %+v, %v", stored, err)
	}
	n.awaitReady(1) // filled again
	if err := n.svc.Delete(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	n.close()
	n.nothingLeft()
}

func TestReadyMachineThatDoesNotGoOnIsReplacedByARestoredOne(t *testing.T) {
	n := pooled(t, 1)
	n.awaitReady(1)
	n.starter.mu.Lock()
	n.starter.cont = errors.New("reseed failed")
	n.starter.mu.Unlock()
	sb := n.create()
	if sb.Start.Kind != "restored" {
		t.Errorf("start: got %q, want restored", sb.Start.Kind)
	}
	if first := n.starter.specs[0].ID; n.machine(first).alive() || first == sb.ID {
		t.Error("the machine that failed is still there")
	}
	if all, _ := n.records.List(t.Context()); len(all) != 1 {
		t.Errorf("records: got %v", all)
	}
}

func TestPoolDropsDeadAndOldMachines(t *testing.T) {
	n := pooled(t, 1)
	n.awaitReady(1)
	n.machine(n.starter.specs[0].ID).die("killed")
	if sb := n.create(); sb.Start.Kind == "ready" && sb.ID == n.starter.specs[0].ID {
		t.Error("a dead machine was taken")
	}
	n.awaitReady(-1)
	old := n.ensure
	n.ensure = func(ctx context.Context, name string) (Warm, error) {
		warm, err := old(ctx, name)
		warm.Key = "rebaked"
		return warm, err
	}
	if sb := n.create(); sb.WarmKey != "rebaked" {
		t.Errorf("warm key: got %q, want that of the new template", sb.WarmKey)
	}
}

func TestPoolStaysWithinItsLimits(t *testing.T) {
	n := newNode(t, func(c *Config) { c.Pool = Pool{Max: 3, MemoryMB: 2*readyMB + 1} })
	if p := n.svc.Pool(); p.Wanted != 0 {
		t.Errorf("a pool nobody has asked anything of: got %+v", p)
	}
	for range 50 {
		n.create()
	}
	n.awaitReady(-1)
	if p := n.svc.Pool(); p.Ready > 2 || p.Ready < 1 {
		t.Errorf("got %+v, want 1 or 2 ready", p)
	}
}

func TestCloseDrainsThePool(t *testing.T) {
	n := pooled(t, 2)
	n.awaitReady(1)
	n.close()
	n.nothingLeft()
	if p := n.svc.Pool(); p.Ready != 0 {
		t.Errorf("after Close: %+v", p)
	}
}

func TestMachinesReadyWhenTheServerDiedAreEnded(t *testing.T) {
	n := pooled(t, 1)
	n.awaitReady(1)
	id := n.starter.specs[0].ID
	dead := n.svc
	n.cfg.Pool = Pool{}
	n.start() // as after kill -9: the first one was never closed
	if n.machine(id).alive() {
		t.Error("the machine is still there")
	}
	if _, err := os.Stat(n.cfg.RunsDir + "/" + id); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its run folder: %v", err)
	}
	if err := dead.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestFailureToMakeReadyLeavesNothingAndBlocksNothing(t *testing.T) {
	failed := make(chan struct{}, 10)
	n := newNode(t, func(c *Config) {
		c.Pool = Pool{Max: 1, First: []string{defaultTemplate}}
		c.Starter.(*starter).launch = func(_ context.Context, spec shim.Spec) error {
			if spec.Nice == 0 {
				return nil
			}
			failed <- struct{}{}
			return errors.New("broken")
		}
	})
	<-failed
	if sb := n.create(); sb.Start.Kind != "restored" {
		t.Errorf("start: got %q", sb.Start.Kind)
	}
	if _, err := n.svc.Create(t.Context(), api.CreateSandbox{Template: "unknown"}); panda.CodeOf(err) != api.CodeTemplateNotFound {
		t.Errorf("unknown template: got %v", err)
	}
}
