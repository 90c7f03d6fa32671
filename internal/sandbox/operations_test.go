package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pandastack/api"
	"pandastack/internal/panda"
	"pandastack/internal/shim"
)

func (n *node) get(id string) panda.Sandbox {
	n.t.Helper()
	sb, err := n.svc.Get(context.Background(), id)
	if err != nil {
		n.t.Fatalf("Get: %v", err)
	}
	return sb
}

func (n *node) remove(ids ...string) {
	n.t.Helper()
	for _, id := range ids {
		if err := n.svc.Delete(context.Background(), id); err != nil {
			n.t.Errorf("Delete: %v", err)
		}
	}
	n.nothingLeft()
}

func (n *node) hibernate(id string) panda.Sandbox {
	n.t.Helper()
	sb, err := n.svc.Hibernate(context.Background(), id)
	if err != nil || sb.Status != panda.Hibernated || sb.Saved == "" {
		n.t.Fatalf("Hibernate: %+v, %v", sb, err)
	}
	return sb
}

// saved lists the folders of saves.
func (n *node) saved() (names []string) {
	dirs, _ := os.ReadDir(n.cfg.SavesDir)
	for _, d := range dirs {
		names = append(names, d.Name())
	}
	return names
}

func TestPauseAndResume(t *testing.T) {
	n := newNode(t)
	id := n.create().ID
	for range 2 { // the second is of no effect
		if sb, err := n.svc.Pause(t.Context(), id); err != nil || sb.Status != panda.Paused {
			t.Fatalf("Pause: %+v, %v", sb, err)
		}
	}
	if _, err := n.svc.Contexts(t.Context(), id); panda.CodeOf(err) != api.CodeSandboxPaused {
		t.Errorf("a call while paused: %v, want sandbox.paused", err)
	}
	n.close() // it stays so over a restart
	n.start()
	if sb := n.get(id); sb.Status != panda.Paused || !n.machine(id).stopped {
		t.Errorf("after a restart: %s, stopped %v", sb.Status, n.machine(id).stopped)
	}
	for range 2 {
		if sb, err := n.svc.Wake(t.Context(), id, ""); err != nil || sb.Status != panda.Running {
			t.Fatalf("Wake: %+v, %v", sb, err)
		}
	}
	if last := n.machine(id).resumed; len(last[len(last)-1].Seed) != 0 {
		t.Error("a machine that exists once was given new random numbers")
	}
	n.remove(id)
}

func TestHibernateAndWake(t *testing.T) {
	n := newNode(t)
	id := n.create().ID
	sb := n.hibernate(id)
	if seen, err := n.svc.Look(t.Context(), id); err != nil || seen.Saved == nil || seen.Saved.MemoryBytes != 4096 {
		t.Errorf("what is on disk: %+v, %v", seen.Saved, err)
	}
	if n.machine(id).alive() || len(n.svc.uids) != 0 {
		t.Error("the machine or its user id is still there")
	}
	n.close()
	n.start()
	if n.get(id).Status != panda.Hibernated {
		t.Error("a restart lost that it hibernates")
	}
	if _, err := n.svc.Contexts(t.Context(), id); err != nil {
		t.Fatalf("the next call: %v", err)
	}
	got := n.get(id)
	spec := n.lastSpec()
	if got.Status != panda.Running || got.Saved != "" || got.Start.Kind != "restored" || got.Start.Lost != "" {
		t.Errorf("woken: %+v", got)
	}
	if dir := n.svc.saveDir(sb.Saved); spec.State != filepath.Join(dir, shim.StateFile) || len(spec.Layers) != 1 || spec.Lowest != "warm" {
		t.Errorf("started with %+v, want what %s has", spec, dir)
	}
	if len(n.saved()) != 0 {
		t.Errorf("saves left: %v", n.saved())
	}
	n.machine(id).die("later") // the new machine is watched too
	eventually(t, func() bool { return n.get(id).Status == panda.Failed })
	n.remove(id)
}

func TestHibernatedSandboxThatDoesNotWakeByItself(t *testing.T) {
	n := newNode(t)
	no := false
	sb, err := n.svc.Create(t.Context(), api.CreateSandbox{AutoWake: &no})
	if err != nil {
		t.Fatal(err)
	}
	n.hibernate(sb.ID)
	if _, err := n.svc.Contexts(t.Context(), sb.ID); panda.CodeOf(err) != api.CodeSandboxHibernated {
		t.Errorf("a call: %v, want sandbox.hibernated", err)
	}
	if got, err := n.svc.Wake(t.Context(), sb.ID, wakeFromDisk); err != nil || got.Start.Kind != "booted" || got.Start.Lost != "memory" {
		t.Errorf("Wake from disk: %+v, %v", got, err)
	}
	n.remove(sb.ID)
}

func TestDamagedSaveIsRefused(t *testing.T) {
	n := newNode(t)
	id := n.create().ID
	dir := n.svc.saveDir(n.hibernate(id).Saved)
	path := filepath.Join(dir, shim.StateFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for what, content := range map[string][]byte{"flipped": append([]byte{whole[0] ^ 1}, whole[1:]...), "cut": whole[1:]} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		launched := len(n.starter.specs)
		_, err := n.svc.Wake(t.Context(), id, "")
		if panda.CodeOf(err) != api.CodeSnapshotDamaged || !strings.Contains(err.Error(), path) && !strings.Contains(errors.Unwrap(err).Error(), path) {
			t.Errorf("%s: %v, want snapshot.damaged that names %s", what, err, path)
		}
		if len(n.starter.specs) != launched || n.get(id).Status != panda.Hibernated {
			t.Errorf("%s: it was started, or is %s", what, n.get(id).Status)
		}
	}
	if err := os.Remove(filepath.Join(dir, saveFile)); err != nil { // not needed for the disk
		t.Fatal(err)
	}
	if got, err := n.svc.Wake(t.Context(), id, wakeFromDisk); err != nil || got.Start.Lost != "memory" {
		t.Errorf("Wake from disk: %+v, %v", got, err)
	}
	n.remove(id)
}

func TestOperationOnADyingMachineSaysSo(t *testing.T) {
	n := newNode(t)
	id := n.create().ID
	n.starter.capture = errors.New("the connection broke")
	n.machine(id).die("killed")
	if _, err := n.svc.TakeSnapshot(t.Context(), id, api.TakeSnapshot{}); panda.CodeOf(err) != api.CodeSandboxFailed {
		t.Errorf("TakeSnapshot: %v, want sandbox.failed", err)
	}
	n.starter.capture = nil
	n.remove(id)
}

func TestFailedOperationsChangeNothing(t *testing.T) {
	n := newNode(t)
	id := n.create().ID
	running := func(what string, err error, code string) {
		t.Helper()
		if panda.CodeOf(err) != code {
			t.Errorf("%s: %v, want %s", what, err, code)
		}
		if got := n.get(id); got.Status != panda.Running || !n.machine(id).alive() || n.machine(id).stopped || len(n.saved()) != 0 {
			t.Errorf("after %s: %s, saves %v", what, got.Status, n.saved())
		}
	}
	n.starter.capture = syscall.ENOSPC
	_, err := n.svc.Hibernate(t.Context(), id)
	running("a full disk", err, api.CodeHostDiskFull)
	_, err = n.svc.TakeSnapshot(t.Context(), id, api.TakeSnapshot{})
	running("a full disk", err, api.CodeHostDiskFull)
	n.starter.capture = nil
	n.records.set(func() { n.records.update = errors.New("broken") })
	_, err = n.svc.Hibernate(t.Context(), id)
	running("a broken store", err, "internal")
	n.records.set(func() { n.records.update = nil })
	n.records.snapshots.put = errors.New("broken")
	_, err = n.svc.TakeSnapshot(t.Context(), id, api.TakeSnapshot{})
	running("a broken store", err, "internal")
	n.starter.launch = func(context.Context, shim.Spec) error { return errors.New("no machine") }
	_, _, err = n.svc.Fork(t.Context(), id, api.ForkTree{Count: 3})
	running("forks that do not start", err, api.CodeSandboxStartFailed)

	n.starter.launch = nil
	saved := n.hibernate(id).Saved
	n.starter.launch = func(context.Context, shim.Spec) error { return errors.New("no machine") }
	if _, err := n.svc.Wake(t.Context(), id, ""); panda.CodeOf(err) != api.CodeSandboxStartFailed {
		t.Errorf("Wake: %v", err)
	}
	if got := n.get(id); got.Status != panda.Hibernated || got.Saved != saved || !slices.Equal(n.saved(), []string{saved}) {
		t.Errorf("after a failed wake: %+v, saves %v", got, n.saved())
	}
	n.starter.launch = nil
	n.fits = &panda.Error{Code: api.CodeSnapshotHostMismatch, Message: "other host"}
	if _, err := n.svc.Wake(t.Context(), id, ""); panda.CodeOf(err) != api.CodeSnapshotHostMismatch {
		t.Errorf("Wake on another host: %v", err)
	}
	if got, err := n.svc.Wake(t.Context(), id, wakeFromDisk); err != nil || got.Start.Kind != "booted" {
		t.Errorf("Wake from disk on another host: %+v, %v", got, err)
	}
	n.remove(id)
}

func TestSnapshots(t *testing.T) {
	n := newNode(t)
	box, err := n.svc.Create(t.Context(), api.CreateSandbox{Metadata: map[string]string{"a": "1"}, Env: map[string]string{"E": "x"}})
	if err != nil {
		t.Fatal(err)
	}
	sn, err := n.svc.TakeSnapshot(t.Context(), box.ID, api.TakeSnapshot{Name: "first", Metadata: map[string]string{"b": "2"}})
	if err != nil || sn.SandboxID != box.ID || sn.Metadata["a"] != "1" || sn.Metadata["b"] != "2" || sn.MemoryBytes == 0 {
		t.Fatalf("TakeSnapshot: %+v, %v", sn, err)
	}
	if _, err := n.svc.TakeSnapshot(t.Context(), box.ID, api.TakeSnapshot{Name: "first"}); panda.CodeOf(err) != api.CodeSnapshotNameTaken {
		t.Errorf("a taken name: %v", err)
	}
	n.hibernate(box.ID)
	asleep, err := n.svc.TakeSnapshot(t.Context(), box.ID, api.TakeSnapshot{})
	if err != nil || n.get(box.ID).Status != panda.Hibernated {
		t.Fatalf("of a hibernated one: %v", err)
	}
	if err := n.svc.Delete(t.Context(), box.ID); err != nil { // snapshots outlive it
		t.Fatal(err)
	}
	n.close()
	n.start()
	for _, from := range []string{"first", sn.ID, asleep.ID} {
		got, err := n.svc.Create(t.Context(), api.CreateSandbox{FromSnapshot: from, Metadata: map[string]string{"b": "3"}})
		if err != nil || got.Template != defaultTemplate || got.Env["E"] != "x" || got.Metadata["a"] != "1" || got.Metadata["b"] != "3" || got.FromSnapshot == "" {
			t.Fatalf("from %s: %+v, %v", from, got, err)
		}
		if len(n.lastSpec().Resume.Seed) == 0 {
			t.Error("a copy was not given random numbers of its own")
		}
		if err := n.svc.Delete(t.Context(), got.ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.svc.Create(t.Context(), api.CreateSandbox{FromSnapshot: sn.ID, MemoryMB: 2048}); panda.CodeOf(err) != api.CodeRequestInvalid {
		t.Errorf("with another size: %v", err)
	}
	if _, err := n.svc.Create(t.Context(), api.CreateSandbox{FromSnapshot: "other"}); panda.CodeOf(err) != api.CodeSnapshotNotFound {
		t.Errorf("of none: %v", err)
	}
	if all, err := n.svc.Snapshots(t.Context(), box.ID); err != nil || len(all) != 2 {
		t.Errorf("Snapshots: %v, %v", all, err)
	}
	for _, id := range []string{"first", asleep.ID} {
		if err := n.svc.DeleteSnapshot(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	if err := n.svc.DeleteSnapshot(t.Context(), "first"); panda.CodeOf(err) != api.CodeSnapshotNotFound {
		t.Errorf("DeleteSnapshot again: %v", err)
	}
	n.nothingLeft()
}

func TestSavesThatNoRecordNamesAreRemoved(t *testing.T) {
	n := newNode(t)
	id := n.create().ID
	n.hibernate(id)
	sn, err := n.svc.TakeSnapshot(t.Context(), id, api.TakeSnapshot{})
	if err != nil {
		t.Fatal(err)
	}
	n.close()
	if err := os.Mkdir(n.svc.saveDir("halfmade"), 0o700); err != nil {
		t.Fatal(err)
	}
	n.start()
	want := []string{n.get(id).Saved, sn.ID}
	slices.Sort(want)
	if got := n.saved(); !slices.Equal(got, want) {
		t.Errorf("saves %v, want %v", got, want)
	}
	if err := n.svc.DeleteSnapshot(t.Context(), sn.ID); err != nil {
		t.Error(err)
	}
	n.remove(id)
}

func TestForksAndPromotion(t *testing.T) {
	n := newNode(t)
	box, err := n.svc.Create(t.Context(), api.CreateSandbox{Env: map[string]string{"E": "x"}})
	if err != nil {
		t.Fatal(err)
	}
	tree, children, err := n.svc.Fork(t.Context(), box.ID, api.ForkTree{Count: 3, Metadata: map[string]string{"k": "v"}})
	if err != nil || len(children) != 3 {
		t.Fatalf("Fork: %v, %v", children, err)
	}
	for _, child := range children {
		if child.ForkParent != box.ID || child.ForkTree != tree || child.Env["E"] != "x" || child.Metadata["k"] != "v" || child.Status != panda.Running {
			t.Errorf("child %+v", child)
		}
	}
	if len(n.saved()) != 0 {
		t.Errorf("what the forks were made from is left: %v", n.saved())
	}
	if _, err := n.svc.Promote(t.Context(), box.ID, api.Promote{}); panda.CodeOf(err) != api.CodeRequestInvalid {
		t.Errorf("Promote of the parent: %v", err)
	}
	got, err := n.svc.Promote(t.Context(), children[1].ID, api.Promote{CleanupSiblings: true})
	if err != nil || got.Winner != children[1].ID || got.TreeID != tree || len(got.Deleted) != 2 || len(got.Failures) != 0 {
		t.Errorf("Promote: %+v, %v", got, err)
	}
	if all, _ := n.svc.List(t.Context()); len(all) != 2 {
		t.Errorf("left: %v", all)
	}
	if _, _, err := n.svc.Fork(t.Context(), box.ID, api.ForkTree{Count: 17}); panda.CodeOf(err) != api.CodeRequestInvalid {
		t.Errorf("17 forks: %v", err)
	}
	if err := n.svc.Delete(t.Context(), box.ID); err != nil {
		t.Error(err)
	}
	n.remove(children[1].ID)
}

func TestCallsWaitForAnOperation(t *testing.T) {
	n := newNode(t)
	id := n.create().ID
	n.hibernate(id)
	begun, goOn := make(chan struct{}), make(chan struct{})
	n.starter.launch = func(context.Context, shim.Spec) error {
		close(begun)
		<-goOn
		return nil
	}
	errs := make(chan error, 3)
	go func() { _, err := n.svc.Wake(context.Background(), id, ""); errs <- err }()
	<-begun
	go func() { _, err := n.svc.Contexts(context.Background(), id); errs <- err }()
	go func() { _, err := n.svc.Pause(context.Background(), id); errs <- err }()
	close(goOn)
	for range 3 {
		if err := <-errs; err != nil && !strings.Contains(err.Error(), "paused") {
			t.Error(err)
		}
	}
	if got := n.get(id); got.Status != panda.Paused {
		t.Errorf("in the end it is %s", got.Status)
	}
	n.remove(id)
}

func TestWhatHappensAtTheEndOfItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		create := func(req api.CreateSandbox) string {
			t.Helper()
			sb, err := n.svc.Create(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			return sb.ID
		}
		killed := create(api.CreateSandbox{IdleTimeoutSeconds: 60})
		slept := create(api.CreateSandbox{IdleTimeoutSeconds: 60, OnTimeout: panda.OnTimeoutHibernate})
		ttl := create(api.CreateSandbox{TTLSeconds: 60, OnTimeout: panda.OnTimeoutHibernate})
		busy := create(api.CreateSandbox{IdleTimeoutSeconds: 60})
		n.machine(busy).guest.cpuPermille.Store(500)
		cell := create(api.CreateSandbox{IdleTimeoutSeconds: 60})
		n.machine(cell).guest.busy.Store(true)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if _, err := n.svc.Get(t.Context(), killed); panda.CodeOf(err) != api.CodeSandboxNotFound {
			t.Errorf("an idle one that is to be killed: %v", err)
		}
		for id, want := range map[string]panda.Status{slept: panda.Hibernated, ttl: panda.Hibernated, busy: panda.Running, cell: panda.Running} {
			if got := n.get(id).Status; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		if _, err := n.svc.Wake(t.Context(), ttl, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(59 * time.Second) // its time begins anew
		synctest.Wait()
		if got := n.get(ttl).Status; got != panda.Running {
			t.Errorf("woken, a second before its time is over: %s", got)
		}
		n.machine(busy).guest.cpuPermille.Store(0)
		n.machine(cell).guest.busy.Store(false)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		n.remove(slept, ttl)
	})
}

func TestAFullNodeHibernatesWhatIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var available atomic.Int64
		available.Store(1 << 40)
		n := newNode(t, func(c *Config) {
			c.Limits = Limits{Sandboxes: 3, ReserveMB: 100}
			c.HostMemory = func() (int64, error) { return available.Load(), nil }
		})
		oldest, cell, young := n.create().ID, n.create().ID, ""
		n.machine(cell).guest.busy.Store(true)
		time.Sleep(2 * time.Minute)
		young = n.create().ID
		fourth := n.create().ID
		for id, want := range map[string]panda.Status{oldest: panda.Hibernated, cell: panda.Running, young: panda.Running, fourth: panda.Running} {
			if got := n.get(id).Status; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		_, err := n.svc.Create(t.Context(), api.CreateSandbox{}) // nobody is idle for long enough
		var known *panda.Error
		if !errors.As(err, &known) || known.Code != api.CodeSandboxCapacity || known.RetryAfter == 0 {
			t.Errorf("a fifth: %v, want sandbox.capacity with a time to wait", err)
		}
		if err := n.svc.Delete(t.Context(), young); err != nil {
			t.Error(err)
		}
		available.Store(150 << 20)
		if _, err := n.svc.Create(t.Context(), api.CreateSandbox{}); panda.CodeOf(err) != api.CodeSandboxCapacity || !strings.Contains(err.Error(), "150 MB") {
			t.Errorf("on a host that is short of memory: %v", err)
		}
		n.remove(oldest, cell, fourth)
	})
}
