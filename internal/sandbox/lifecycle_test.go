package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pandastack/api"
	"pandastack/internal/kit/ids"
	"pandastack/internal/panda"
	"pandastack/internal/shim"
)

func TestDeleteByManyAtOnce(t *testing.T) {
	n := newNode(t)
	sb := n.create()
	errs := make(chan error, 16)
	for range cap(errs) {
		go func() { errs <- n.svc.Delete(t.Context(), sb.ID) }()
	}
	for range cap(errs) {
		// One that came too late finds nothing.
		if err := <-errs; err != nil && panda.CodeOf(err) != api.CodeSandboxNotFound {
			t.Errorf("Delete: %v", err)
		}
	}
	n.nothingLeft()
	if err := n.svc.Delete(t.Context(), sb.ID); panda.CodeOf(err) != api.CodeSandboxNotFound {
		t.Errorf("Delete again: got %v, want sandbox.not_found", err)
	}
	if _, err := n.svc.Get(t.Context(), sb.ID); panda.CodeOf(err) != api.CodeSandboxNotFound {
		t.Errorf("Get: got %v, want sandbox.not_found", err)
	}
}

func TestDeleteEndsACreation(t *testing.T) {
	n := newNode(t)
	launching := make(chan string)
	n.starter.launch = func(ctx context.Context, spec shim.Spec) error {
		launching <- spec.ID
		<-ctx.Done()
		return ctx.Err()
	}
	created := make(chan error)
	go func() {
		_, err := n.svc.Create(t.Context(), api.CreateSandbox{})
		created <- err
	}()
	if err := n.svc.Delete(t.Context(), <-launching); err != nil {
		t.Errorf("Delete: %v", err)
	}
	if err := <-created; panda.CodeOf(err) != api.CodeSandboxNotFound {
		t.Errorf("Create: got %v, want sandbox.not_found", err)
	}
	n.nothingLeft()
}

func TestFailedDeleteCanBeTriedAgain(t *testing.T) {
	n := newNode(t)
	sb := n.create()
	n.records.set(func() { n.records.update, n.records.del = errors.New("full"), errors.New("full") })
	if err := n.svc.Delete(t.Context(), sb.ID); err == nil {
		t.Fatal("Delete: got no error")
	}
	if n.machine(sb.ID).alive() {
		t.Error("the machine outlived a deletion whose record could not be removed")
	}
	n.records.set(func() { n.records.update, n.records.del = nil, nil })
	if err := n.svc.Delete(t.Context(), sb.ID); err != nil {
		t.Fatalf("second Delete: %v", err)
	}
	n.nothingLeft()
}

func TestMachineThatEndsMakesItsSandboxFailed(t *testing.T) {
	n := newNode(t)
	sb := n.create()
	n.machine(sb.ID).die("killed by signal 9")
	eventually(t, func() bool {
		got, err := n.records.Get(t.Context(), sb.ID)
		return err == nil && got.Status == panda.Failed
	})
	const want = "the virtual machine ended: killed by signal 9"
	eventually(t, func() bool {
		got, err := n.svc.Get(t.Context(), sb.ID)
		return err == nil && got.Status == panda.Failed && got.Failure == want
	})
	if _, err := n.svc.Contexts(t.Context(), sb.ID); err != nil {
		t.Errorf("the next call: %v", err)
	}
	got, err := n.svc.Get(t.Context(), sb.ID)
	if err != nil || got.Status != panda.Running || got.Start.Kind != "booted" || got.Start.Lost != "memory" || got.Failure != "" {
		t.Errorf("after the next call: %+v, %v", got, err)
	}
	if spec := n.lastSpec(); spec.State != "" || spec.Layers != nil {
		t.Errorf("it was started with %+v, want a boot", spec)
	}
	if err := n.svc.Delete(t.Context(), sb.ID); err != nil {
		t.Fatalf("Delete: %v", err)
	}
	n.nothingLeft()
}

func TestTimeToLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		create := func(ttl int) string {
			sb, err := n.svc.Create(t.Context(), api.CreateSandbox{TTLSeconds: ttl})
			if err != nil {
				t.Fatalf("Create: %v", err)
			}
			return sb.ID
		}
		exists := func(id string, want bool) {
			t.Helper()
			if _, err := n.svc.Get(t.Context(), id); (err == nil) != want {
				t.Errorf("Get: got %v, want it there: %v", err, want)
			}
		}
		late, forever := create(3600), create(0)
		early := create(10) // a deadline before the one being waited for
		time.Sleep(9 * time.Second)
		synctest.Wait()
		exists(early, true)
		n.records.set(func() { n.records.del = errors.New("full") })
		time.Sleep(2 * time.Second)
		synctest.Wait()
		exists(early, true) // its deletion failed and is tried again
		n.records.set(func() { n.records.del = nil })
		time.Sleep(retryDelete)
		synctest.Wait()
		exists(early, false)
		exists(late, true)
		time.Sleep(time.Hour)
		synctest.Wait()
		exists(late, false)
		exists(forever, true)
		n.close()
	})
}

func TestCloseLeavesSandboxesToTheNextServer(t *testing.T) {
	n := newNode(t, func(c *Config) { c.Limits.MemoryMB = 4096 })
	lives, dies, deleted := n.create(), n.create(), n.create()
	if err := n.svc.Delete(t.Context(), deleted.ID); err != nil {
		t.Fatal(err)
	}
	n.close()
	if !n.machine(lives.ID).alive() {
		t.Fatal("Close ended a machine")
	}
	if _, err := n.svc.Create(t.Context(), api.CreateSandbox{}); panda.CodeOf(err) != api.CodeSandboxCapacity {
		t.Errorf("Create after Close: got %v, want sandbox.capacity", err)
	}
	// What a kill -9 may leave besides.
	n.machine(dies.ID).die("killed")
	half, stopping, orphan := left(t, n, panda.Creating), left(t, n, panda.Stopping), left(t, n, "")
	if err := os.Mkdir(filepath.Join(n.cfg.RunsDir, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}

	n.start()
	if _, err := n.svc.Contexts(t.Context(), lives.ID); err != nil {
		t.Errorf("Contexts of the adopted: %v", err)
	}
	if got, err := n.svc.Get(t.Context(), dies.ID); err != nil || got.Status != panda.Failed || got.Failure == "" {
		t.Errorf("the one that died: got %+v, %v, want failed and why", got, err)
	}
	for _, id := range []string{half, stopping, orphan} {
		if _, err := os.Stat(filepath.Join(n.cfg.RunsDir, id)); !os.IsNotExist(err) {
			t.Errorf("run folder: got %v, want none", err)
		}
		if _, err := n.records.Get(t.Context(), id); err == nil {
			t.Error("a record is left")
		}
	}
	if len(n.starter.reaped) < 4 { // those three and the one that died
		t.Errorf("reaped: got %v", n.starter.reaped)
	}
	if !n.svc.uids[1000] || n.svc.live[lives.ID].memoryMB != 1024 {
		t.Errorf("user ids %v, want the adopted machine's among them and its memory counted", n.svc.uids)
	}
	for _, id := range []string{lives.ID, dies.ID} {
		if err := n.svc.Delete(t.Context(), id); err != nil {
			t.Errorf("Delete: %v", err)
		}
	}
	if err := os.Remove(filepath.Join(n.cfg.RunsDir, "lost+found")); err != nil {
		t.Errorf("a folder that is no sandbox's: %v", err)
	}
	n.nothingLeft()
}

// left makes what a killed server leaves of a sandbox in status; "" is without
// a record.
func left(t *testing.T, n *node, status panda.Status) string {
	t.Helper()
	id := ids.New()
	if status != "" {
		if err := n.records.Put(t.Context(), panda.Sandbox{ID: id, Status: status}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(n.cfg.RunsDir, id), 0o700); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestCalledOffStartEndsNoMachine(t *testing.T) {
	n := newNode(t)
	sb := n.create()
	n.close()
	svc, err := New(n.cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := svc.Start(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Start: got %v, want context.Canceled", err)
	}
	if !n.machine(sb.ID).alive() {
		t.Error("a Start that was called off ended a machine")
	}
}

func TestEndOnClose(t *testing.T) {
	n := newNode(t, func(c *Config) { c.EndOnClose = true })
	n.create()
	n.create()
	launching := make(chan struct{})
	n.starter.launch = func(ctx context.Context, _ shim.Spec) error {
		close(launching)
		<-ctx.Done()
		return ctx.Err()
	}
	created := make(chan error)
	go func() {
		_, err := n.svc.Create(t.Context(), api.CreateSandbox{})
		created <- err
	}()
	<-launching
	n.close()
	if err := <-created; err == nil || !strings.Contains(err.Error(), "shutting down") {
		t.Errorf("Create: got %v, want that the server is shutting down", err)
	}
	n.nothingLeft()
}

// TestStorm lets creations, deletions and deaths meet in every order.
func TestStorm(t *testing.T) {
	n := newNode(t)
	var all sync.WaitGroup
	for worker := range 16 {
		all.Go(func() {
			for round := range 20 {
				ctx, cancel := context.WithCancel(t.Context())
				if (worker+round)%5 == 0 {
					go cancel()
				}
				sb, err := n.svc.Create(ctx, api.CreateSandbox{})
				cancel()
				if err != nil {
					continue
				}
				if round%3 == 0 {
					go n.machine(sb.ID).die("killed")
				}
				go func() { _, _ = n.svc.Contexts(t.Context(), sb.ID) }()
				go func() { _ = n.svc.Delete(t.Context(), sb.ID) }()
				if err := n.svc.Delete(t.Context(), sb.ID); err != nil && panda.CodeOf(err) != api.CodeSandboxNotFound {
					t.Errorf("Delete: %v", err)
				}
			}
		})
	}
	all.Wait()
	n.close() // waits for those that died
	n.nothingLeft()
}
