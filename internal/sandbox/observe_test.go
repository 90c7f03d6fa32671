package sandbox

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/panda"
)

// told remembers what an Observer was told.
type told struct {
	mu  sync.Mutex
	all []string
}

func (o *told) say(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, what)
}

func (o *told) SandboxStarted(s api.Start)                 { o.say("started " + s.Kind) }
func (o *told) SandboxNotStarted(code string)              { o.say("not started " + code) }
func (o *told) PoolFilled(outcome string, _ time.Duration) { o.say("pool " + outcome) }
func (o *told) SandboxFailed()                             { o.say("failed") }
func (o *told) CellDone(status string, _ time.Duration)    { o.say("cell " + status) }
func (o *told) ExecDone(outcome string, _ time.Duration)   { o.say("exec " + outcome) }

func (o *told) heard(what string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Contains(o.all, what)
}

func TestObserverHearsWhatHappens(t *testing.T) {
	observer := &told{}
	n := newNode(t, func(c *Config) { c.Observer = observer })
	sb := n.create()
	if _, err := n.svc.Create(t.Context(), api.CreateSandbox{Template: "nope"}); err == nil {
		t.Fatal("a template that is not there was taken")
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, _ = n.svc.Create(gone, api.CreateSandbox{})
	m := n.machine(sb.ID)
	m.guest.execute = func(_ context.Context, _ guestproto.ExecuteRequest, sink func(guestproto.Event) error) error {
		return sink(done(`{"status":"ok","duration_ms":5}`))
	}
	m.guest.exec = func(_ context.Context, req guestproto.ExecRequest, sink func(guestproto.ExecEvent) error) error {
		exit := guestproto.ExecEvent{Type: guestproto.ExecExit}
		if req.Shell == "kill" {
			exit.Signal = "SIGKILL"
		}
		return sink(exit)
	}
	if _, err := n.svc.Execute(t.Context(), sb.ID, "c", api.Execute{}); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []string{"exit", "kill"} {
		err := n.svc.ExecStream(t.Context(), sb.ID, api.Exec{Cmd: cmd}, func(guestproto.ExecEvent) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	load := n.svc.Load()
	if load.ByStatus["running"] != 1 || load.ByStatus["failed"] != 0 || load.ReservedBytes != 1<<30 {
		t.Errorf("load %+v", load)
	}
	m.die("as asked")
	eventually(t, func() bool { return observer.heard("failed") })
	for _, what := range []string{"started restored", "not started template.not_found", "not started caller_left", "cell ok", "exec exited", "exec signaled"} {
		if !observer.heard(what) {
			t.Errorf("not told of %q: %v", what, observer.all)
		}
	}
	if seen, err := n.svc.Look(t.Context(), sb.ID); seen.Usage != nil || err != nil {
		t.Errorf("usage of a failed sandbox: %+v, %v", seen, err)
	}
	if _, err := n.svc.Look(t.Context(), "nope"); panda.CodeOf(err) != api.CodeSandboxNotFound {
		t.Errorf("usage of none: %v", err)
	}
}

func (g *guest) Stats(context.Context) (guestproto.Stats, error) {
	return guestproto.Stats{MemTotal: 2, MemAvailable: 1, CPUSeconds: float64(g.cpuPermille.Load()) / 1000 * time.Since(g.born).Seconds()}, nil
}

func TestUsageOfARunningSandbox(t *testing.T) {
	n := newNode(t)
	sb := n.create()
	seen, err := n.svc.Look(t.Context(), sb.ID)
	usage := seen.Usage
	if err != nil || usage == nil || usage.Network != "none" || usage.Disk.HostBytes == 0 || usage.Guest.MemoryTotalBytes != 2 || usage.Memory.GuestChangedBytes == 0 || seen.Resumed == nil {
		t.Errorf("got %+v, %v", usage, err)
	}
}
