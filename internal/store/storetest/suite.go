// Package storetest is the suite that every store passes.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pandastack/api"
	"pandastack/internal/panda"
	"pandastack/internal/store"
)

// Run tests the store that open gives. A second call of open with the same t
// must give the same records again.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	cases := []struct {
		name string
		test func(*testing.T, store.Sandboxes)
	}{
		{"PutThenGet", putThenGet},
		{"PutTwice", putTwice},
		{"Missing", missing},
		{"ListIsOldestFirst", listIsOldestFirst},
		{"UpdateReplaces", updateReplaces},
		{"UpdateComparesStatus", updateComparesStatus},
		{"DeleteTwice", deleteTwice},
		{"OneOfManyWinsAnUpdate", oneOfManyWins},
		{"EndedContext", endedContext},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			defer closed(t, s)
			c.test(t, s.Sandboxes())
		})
	}
	t.Run("Snapshots", func(t *testing.T) {
		s := open(t)
		defer closed(t, s)
		snapshots(t, s.Snapshots())
	})
	t.Run("OpenAgain", func(t *testing.T) { openAgain(t, open) })
}

// Sample is a record with every field set.
func Sample(id string) panda.Sandbox {
	return panda.Sandbox{
		ID: id, Template: "code-interpreter", WarmKey: "sha256:aa", CPU: 2, MemoryMB: 1024,
		Status: panda.Creating, Failure: "it's \x00 \"quoted\" – ü",
		CreatedAt: time.Date(2024, 2, 29, 12, 0, 0, 123456789, time.UTC), TTL: 90 * time.Second, Persistent: true,
		TTLFrom:  time.Date(2024, 2, 29, 12, 30, 0, 1, time.UTC),
		Metadata: map[string]string{"user": "ü", "": "empty"}, Env: map[string]string{"A": "b=c"},
		Isolation: "emulated-vm+jail", Accelerator: "tcg",
		FromSnapshot: "snap", ForkParent: "parent", ForkTree: "tree", IdleTimeout: time.Minute,
		OnTimeout: panda.OnTimeoutHibernate, AutoWake: true, Saved: "save",
		Start: api.Start{Kind: "restored", TotalMS: 130.5, Steps: []api.Step{{Name: "admit", MS: 0.25}}},
	}
}

func putThenGet(t *testing.T, s store.Sandboxes) {
	want := Sample("full")
	put(t, s, want)
	same(t, get(t, s, "full"), want)

	empty := panda.Sandbox{ID: "empty", Status: panda.Running, CreatedAt: want.CreatedAt}
	put(t, s, empty)
	same(t, get(t, s, "empty"), empty)
}

func putTwice(t *testing.T, s store.Sandboxes) {
	first := Sample("a")
	put(t, s, first)
	second := first
	second.Template = "other"
	if err := s.Put(t.Context(), second); !errors.Is(err, store.ErrExists) {
		t.Fatalf("second Put: got %v, want ErrExists", err)
	}
	same(t, get(t, s, "a"), first)
}

func missing(t *testing.T, s store.Sandboxes) {
	if _, err := s.Get(t.Context(), "x"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Get: got %v, want ErrNotFound", err)
	}
	if err := s.Update(t.Context(), Sample("x"), panda.Creating); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Update: got %v, want ErrNotFound", err)
	}
	if all := list(t, s); len(all) != 0 {
		t.Errorf("List: got %v, want none", all)
	}
}

func listIsOldestFirst(t *testing.T, s store.Sandboxes) {
	var want []panda.Sandbox
	for n := range 5 {
		sb := Sample(fmt.Sprintf("%c", 'e'-n))
		sb.CreatedAt = sb.CreatedAt.Add(time.Duration(n) * time.Nanosecond)
		want = append(want, sb)
	}
	for _, n := range []int{3, 0, 4, 1, 2} {
		put(t, s, want[n])
	}
	if got := list(t, s); !reflect.DeepEqual(got, want) {
		t.Errorf("List: got %v, want %v", got, want)
	}
}

func updateReplaces(t *testing.T, s store.Sandboxes) {
	put(t, s, Sample("a"))
	put(t, s, Sample("b"))
	want := panda.Sandbox{ID: "a", Status: panda.Failed, Failure: "killed", CreatedAt: Sample("a").CreatedAt}
	if err := s.Update(t.Context(), want, panda.Creating); err != nil {
		t.Fatalf("Update: %v", err)
	}
	same(t, get(t, s, "a"), want)
	same(t, get(t, s, "b"), Sample("b"))
}

func updateComparesStatus(t *testing.T, s store.Sandboxes) {
	want := Sample("a")
	put(t, s, want)
	next := want
	next.Status = panda.Failed
	if err := s.Update(t.Context(), next, panda.Running); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("Update from running of a creating record: got %v, want ErrConflict", err)
	}
	same(t, get(t, s, "a"), want)
}

func deleteTwice(t *testing.T, s store.Sandboxes) {
	put(t, s, Sample("a"))
	put(t, s, Sample("b"))
	for range 2 {
		if err := s.Delete(t.Context(), "a"); err != nil {
			t.Fatalf("Delete: %v", err)
		}
	}
	if got, want := list(t, s), []panda.Sandbox{Sample("b")}; !reflect.DeepEqual(got, want) {
		t.Errorf("List: got %v, want %v", got, want)
	}
}

func oneOfManyWins(t *testing.T, s store.Sandboxes) {
	put(t, s, Sample("a"))
	var won atomic.Int32
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			next := Sample("a")
			next.Status = panda.Running
			switch err := s.Update(t.Context(), next, panda.Creating); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, store.ErrConflict):
				t.Errorf("Update: got %v, want ErrConflict", err)
			}
		})
	}
	all.Wait()
	if got := won.Load(); got != 1 {
		t.Errorf("updates that won: got %d, want 1", got)
	}
}

func endedContext(t *testing.T, s store.Sandboxes) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Put(ctx, Sample("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("Put: got %v, want context.Canceled", err)
	}
	put(t, s, Sample("b")) // the store is still of use
}

func openAgain(t *testing.T, open func(*testing.T) store.Store) {
	first := open(t)
	put(t, first.Sandboxes(), Sample("a"))
	closed(t, first)
	second := open(t)
	defer closed(t, second)
	same(t, get(t, second.Sandboxes(), "a"), Sample("a"))
}

func put(t *testing.T, s store.Sandboxes, sb panda.Sandbox) {
	t.Helper()
	if err := s.Put(t.Context(), sb); err != nil {
		t.Fatalf("Put %s: %v", sb.ID, err)
	}
}

func get(t *testing.T, s store.Sandboxes, id string) panda.Sandbox {
	t.Helper()
	sb, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatalf("Get %s: %v", id, err)
	}
	return sb
}

func list(t *testing.T, s store.Sandboxes) []panda.Sandbox {
	t.Helper()
	all, err := s.List(t.Context())
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	return all
}

func same(t *testing.T, got, want panda.Sandbox) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("record %s:\n got %+v\nwant %+v", want.ID, got, want)
	}
}

func closed(t *testing.T, s store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func snapshots(t *testing.T, s store.Snapshots) {
	ctx := t.Context()
	want := panda.Snapshot{
		ID: "b", Name: "named", SandboxID: "box", Template: "base", WarmKey: "key", CPU: 2, MemoryMB: 512,
		CreatedAt: time.Date(2024, 2, 29, 12, 0, 0, 5, time.UTC), Metadata: map[string]string{"a": "ü"}, Env: map[string]string{"X": "1"},
		MemoryBytes: 1 << 40, DiskBytes: 7, PauseMS: 1.5, TotalMS: 20.25,
	}
	first, other := want, want
	first.ID, first.Name, first.CreatedAt = "c", "", want.CreatedAt.Add(-time.Second)
	other.ID, other.Name = "d", ""
	for _, sn := range []panda.Snapshot{want, first, other} {
		if err := s.Put(ctx, sn); err != nil {
			t.Fatal(err)
		}
	}
	sameID, sameName := first, want
	sameName.ID = "e"
	for _, sn := range []panda.Snapshot{sameID, sameName} {
		if err := s.Put(ctx, sn); !errors.Is(err, store.ErrExists) {
			t.Errorf("Put of a taken id or name: %v, want ErrExists", err)
		}
	}
	if err := errors.Join(s.Delete(ctx, "d"), s.Delete(ctx, "d")); err != nil {
		t.Error(err)
	}
	got, err := s.List(ctx)
	if err != nil || len(got) != 2 || !reflect.DeepEqual(got[0], first) || !reflect.DeepEqual(got[1], want) {
		t.Errorf("List = %+v, %v", got, err)
	}
}
