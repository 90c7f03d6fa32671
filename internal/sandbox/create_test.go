package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pandastack/api"
	"pandastack/internal/kit/ids"
	"pandastack/internal/panda"
	"pandastack/internal/shim"
)

func TestCreate(t *testing.T) {
	n := newNode(t)
	got, err := n.svc.Create(t.Context(), api.CreateSandbox{TTLSeconds: 60, Env: map[string]string{"A": "1"}, Metadata: map[string]string{"m": "2"}})
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	if !ids.Valid(got.ID) || got.Status != panda.Running || got.MemoryMB != 1024 || got.WarmKey != "warm" || got.Isolation != "emulated-vm+jail" {
		t.Errorf("got %+v", got)
	}
	var steps []string
	for _, s := range got.Start.Steps {
		steps = append(steps, s.Name)
	}
	if s := strings.Join(steps, " "); s != "admit template disk memory launch vmm record" {
		t.Errorf("steps: got %q", s)
	}
	stored, err := n.records.Get(t.Context(), got.ID)
	if err != nil || stored.Status != panda.Running || stored.Env["A"] != "1" {
		t.Errorf("record: got %+v, %v", stored, err)
	}
	spec := n.starter.specs[0]
	if !spec.Resume.Reseed || len(spec.Resume.Seed) != 64 || len(spec.Resume.MachineID) != 32 || spec.Resume.Hostname != "sandbox-"+got.ID[:8] {
		t.Errorf("resume: got %+v", spec.Resume)
	}
	if spec.Jail != (shim.Jail{Enabled: true, Root: "/", UID: 1000, GID: 1000}) {
		t.Errorf("jail: got %+v", spec.Jail)
	}
	if text, err := os.ReadFile(spec.Overlay); string(text) != "empty overlay" {
		t.Errorf("overlay: got %q, %v", text, err)
	}
	if n.mapped != 0 {
		t.Errorf("memories not released: %d", n.mapped)
	}
	if err := n.svc.Delete(t.Context(), got.ID); err != nil {
		t.Fatalf("Delete: %v", err)
	}
	n.nothingLeft()
}

func TestFailedCreateLeavesNothing(t *testing.T) {
	broken := errors.New("broken")
	ctx, cancel := context.WithCancel(t.Context())
	cases := map[string]struct {
		breakIt func(*node)
		ctx     context.Context
		want    string // code
	}{
		"template": {func(n *node) { n.ensure = func(context.Context, string) (Warm, error) { return Warm{}, broken } }, nil, api.CodeInternal},
		"no room":  {func(n *node) { n.svc.cfg.Limits.MemoryMB = 1023 }, nil, api.CodeSandboxCapacity},
		"jail":     {func(n *node) { n.jailed = broken }, nil, api.CodeInternal},
		"no uid":   {func(n *node) { n.svc.cfg.UIDs = UIDs{} }, nil, api.CodeInternal},
		"overlay": {func(n *node) {
			n.ensure = func(context.Context, string) (Warm, error) { return Warm{OverlaySeed: "/nowhere"}, nil }
		}, nil, api.CodeInternal},
		"memory":    {func(n *node) { n.opened = broken }, nil, api.CodeInternal},
		"disk full": {func(n *node) { n.opened = syscall.ENOSPC }, nil, api.CodeHostDiskFull},
		"launch":    {func(n *node) { n.starter.launch = func(context.Context, shim.Spec) error { return broken } }, nil, api.CodeSandboxStartFailed},
		"no vmm":    {func(n *node) { n.starter.launch = noVMM }, nil, api.CodeHostNoVMM},
		"state":     {func(n *node) { n.starter.state = broken }, nil, api.CodeSandboxStartFailed},
		"put":       {func(n *node) { n.records.put = syscall.ENOSPC }, nil, api.CodeHostDiskFull},
		"update":    {func(n *node) { n.records.update = broken }, nil, api.CodeInternal},
		"cancelled": {func(n *node) { n.starter.launch = func(context.Context, shim.Spec) error { cancel(); return nil } }, ctx, api.CodeInternal},
		"unknown":   {func(n *node) { n.ensure = unknown }, nil, api.CodeTemplateNotFound},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			c.breakIt(n)
			if c.ctx == nil {
				c.ctx = t.Context()
			}
			_, err := n.svc.Create(c.ctx, api.CreateSandbox{})
			if got := panda.CodeOf(err); err == nil || got != c.want {
				t.Errorf("Create: got %v (%s), want %s", err, got, c.want)
			}
			n.nothingLeft()
		})
	}
}

func noVMM(context.Context, shim.Spec) error {
	return &panda.Error{Code: api.CodeHostNoVMM, Message: "no QEMU"}
}

func unknown(context.Context, string) (Warm, error) {
	return Warm{}, &panda.Error{Code: api.CodeTemplateNotFound, Message: "no such template"}
}

func TestBadRequests(t *testing.T) {
	n := newNode(t)
	for _, req := range []api.CreateSandbox{
		{TTLSeconds: -1}, {TTLSeconds: 1 << 40},
		{Env: map[string]string{"": "x"}}, {Env: map[string]string{"A=B": "x"}}, {Env: map[string]string{"A": "\x00"}},
		{Metadata: map[string]string{"big": strings.Repeat("x", maxPairLen)}},
	} {
		_, err := n.svc.Create(t.Context(), req)
		var known *panda.Error
		if !errors.As(err, &known) || known.Code != api.CodeRequestInvalid || len(known.Fields) != 1 {
			t.Errorf("%.60v: got %v, want request.invalid with a field", req, err)
		}
	}
	n.nothingLeft()
}

func TestLogsOfAFailedStartAreKept(t *testing.T) {
	n := newNode(t)
	n.starter.launch = func(_ context.Context, spec shim.Spec) error {
		return errors.Join(&panda.Error{Code: api.CodeSandboxStartFailed, Message: "logs in " + spec.Dir}, os.WriteFile(filepath.Join(spec.Dir, "console.log"), []byte("Kernel panic"), 0o600))
	}
	for range keptLogs + 2 {
		_, err := n.svc.Create(t.Context(), api.CreateSandbox{})
		var known *panda.Error
		if !errors.As(err, &known) || !strings.Contains(known.Message, n.cfg.LogsDir) {
			t.Fatalf("Create: got %v, want a message that names the logs' folder", err)
		}
		dir := known.Message[strings.Index(known.Message, n.cfg.LogsDir):]
		if text, err := os.ReadFile(filepath.Join(dir, "console.log")); string(text) != "Kernel panic" {
			t.Errorf("log: got %q, %v", text, err)
		}
	}
	kept, err := os.ReadDir(n.cfg.LogsDir)
	if err != nil || len(kept) != keptLogs {
		t.Errorf("kept: got %d, %v, want %d", len(kept), err, keptLogs)
	}
	n.nothingLeft()
}

func TestMachineThatCannotBeEndedIsNotForgotten(t *testing.T) {
	n := newNode(t)
	n.starter.state, n.starter.closeErr = errors.New("broken"), errors.New("will not die")
	if _, err := n.svc.Create(t.Context(), api.CreateSandbox{}); err == nil {
		t.Fatal("Create: got no error")
	}
	all, _ := n.svc.List(t.Context())
	if len(all) != 1 || len(n.svc.uids) != 1 {
		t.Fatalf("got %v and user ids %v, want the stuck sandbox with its user id", all, n.svc.uids)
	}
	if err := n.svc.Delete(t.Context(), all[0].ID); err == nil {
		t.Fatal("Delete: got no error")
	}
	n.starter.closeErr = nil
	if err := n.svc.Delete(t.Context(), all[0].ID); err != nil {
		t.Fatalf("second Delete: %v", err)
	}
	n.nothingLeft()
}

func TestCapacity(t *testing.T) {
	n := newNode(t, func(c *Config) { c.Limits = Limits{MemoryMB: 2048} })
	first := n.create()
	n.create()
	full(t, n)
	if err := n.svc.Delete(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	second := n.create()
	n.machine(second.ID).die("killed")
	eventually(t, func() bool { // a failed one takes no room
		n.svc.mu.Lock()
		defer n.svc.mu.Unlock()
		_, used := n.svc.usedLocked()
		return used == 1024
	})
	n.create()
	full(t, n)

	few := newNode(t, func(c *Config) { c.Limits.Sandboxes = 1 })
	few.create()
	full(t, few)
	ids := newNode(t, func(c *Config) { c.UIDs.Count = 1 })
	ids.create()
	full(t, ids)
}

func full(t *testing.T, n *node) {
	t.Helper()
	_, err := n.svc.Create(t.Context(), api.CreateSandbox{})
	var known *panda.Error
	if !errors.As(err, &known) || known.Code != api.CodeSandboxCapacity || known.RetryAfter <= 0 {
		t.Errorf("Create: got %v, want sandbox.capacity with when to come again", err)
	}
}

func TestUserIDsAreNotShared(t *testing.T) {
	n := newNode(t)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 5 {
				sb, err := n.svc.Create(t.Context(), api.CreateSandbox{})
				if err != nil {
					t.Errorf("Create: %v", err)
					return
				}
				n.svc.mu.Lock()
				taken := map[int]bool{}
				for _, l := range n.svc.live {
					if l.uid != 0 && taken[l.uid] {
						t.Errorf("user id %d is taken twice", l.uid)
					}
					taken[l.uid] = true
				}
				n.svc.mu.Unlock()
				if err := n.svc.Delete(t.Context(), sb.ID); err != nil {
					t.Errorf("Delete: %v", err)
				}
			}
		})
	}
	all.Wait()
	n.nothingLeft()
}

// eventually waits for a state that another goroutine brings about.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the awaited state did not come")
		}
	}
}

func TestCreateInAnotherSize(t *testing.T) {
	n := newNode(t)
	usual := n.create()
	sb, err := n.svc.Create(context.Background(), api.CreateSandbox{CPU: 2, MemoryMB: 512})
	if err != nil || sb.CPU != 2 || sb.MemoryMB != 512 || sb.WarmKey == usual.WarmKey {
		t.Errorf("got %d CPUs, %d MB of snapshot %q, %v", sb.CPU, sb.MemoryMB, sb.WarmKey, err)
	}
	if _, err := n.svc.Create(context.Background(), api.CreateSandbox{MemoryMB: -1}); panda.CodeOf(err) != api.CodeRequestInvalid {
		t.Errorf("negative memory: %v", err)
	}
}
