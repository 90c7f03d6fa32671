package sandbox

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/panda"
)

func TestTimeToLiveThatIsSetCountsFromThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		sb, err := n.svc.Create(t.Context(), api.CreateSandbox{TTLSeconds: 60})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Second) // synctest's clock
		life := n.setTTL(sb.ID, 60)
		if want := time.Now().Add(time.Minute); life.ExpiresAt == nil || !life.ExpiresAt.Equal(want) || life.TTLSeconds != 60 {
			t.Errorf("got %+v, want an end at %s", life, want)
		}
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if _, err := n.svc.Get(t.Context(), sb.ID); err != nil {
			t.Errorf("a second before its new end: %v", err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		n.nothingLeft()
		n.close()
	})
}

func TestTimeToLiveIsTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		sb, err := n.svc.Create(t.Context(), api.CreateSandbox{TTLSeconds: 60})
		if err != nil {
			t.Fatal(err)
		}
		if life := n.setTTL(sb.ID, 0); life.ExpiresAt != nil {
			t.Errorf("got %+v, want no end", life)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if _, err := n.svc.Get(t.Context(), sb.ID); err != nil {
			t.Errorf("an hour later: %v", err)
		}
		n.close()
	})
}

func TestLifecycleOutlivesTheServer(t *testing.T) {
	n := newNode(t)
	sb := n.create()
	n.setTTL(sb.ID, 1000)
	yes := true
	if _, err := n.svc.SetLifecycle(t.Context(), sb.ID, api.SetLifecycle{Persistent: &yes}); err != nil {
		t.Fatal(err)
	}
	before, _ := n.svc.Get(t.Context(), sb.ID)
	n.close()
	n.start()
	after, err := n.svc.Get(t.Context(), sb.ID)
	if err != nil || !after.Persistent || after.TTL != 1000*time.Second || !after.ExpiresAt().Equal(before.ExpiresAt()) || before.TTLFrom.IsZero() {
		t.Errorf("got %+v, %v, want %+v", after, err, before)
	}
}

func TestLifecycleRefusals(t *testing.T) {
	n := newNode(t)
	sb := n.create()
	if _, err := n.svc.SetLifecycle(t.Context(), "none", api.SetLifecycle{}); panda.CodeOf(err) != api.CodeSandboxNotFound {
		t.Errorf("no such sandbox: got %v", err)
	}
	wrong := -1
	if _, err := n.svc.SetLifecycle(t.Context(), sb.ID, api.SetLifecycle{TTLSeconds: &wrong}); panda.CodeOf(err) != api.CodeRequestInvalid {
		t.Errorf("ttl -1: got %v", err)
	}
	n.records.set(func() { n.records.update = syscall.ENOSPC })
	one := 1
	if _, err := n.svc.SetLifecycle(t.Context(), sb.ID, api.SetLifecycle{TTLSeconds: &one}); panda.CodeOf(err) != api.CodeHostDiskFull {
		t.Errorf("full disk: got %v", err)
	}
	n.records.set(func() { n.records.update = nil })
	if life, err := n.svc.Lifecycle(t.Context(), sb.ID); err != nil || life.TTLSeconds != 0 {
		t.Errorf("after a refused change: got %+v, %v", life, err)
	}
}

func TestIdleSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		sb := n.create()
		finish := make(chan struct{})
		n.machine(sb.ID).guest.exec = func(_ context.Context, _ guestproto.ExecRequest, sink func(guestproto.ExecEvent) error) error {
			<-finish
			return sink(guestproto.ExecEvent{Type: guestproto.ExecExit})
		}
		idle := func(want float64) {
			t.Helper()
			if life, err := n.svc.Lifecycle(t.Context(), sb.ID); err != nil || life.IdleSeconds != want {
				t.Errorf("got %g, %v, want %g", life.IdleSeconds, err, want)
			}
		}
		time.Sleep(10 * time.Second)
		idle(10)
		ran := make(chan error)
		go func() {
			_, err := n.svc.Exec(t.Context(), sb.ID, api.Exec{Cmd: "x"})
			ran <- err
		}()
		synctest.Wait()
		time.Sleep(5 * time.Second)
		idle(0)
		close(finish)
		if err := <-ran; err != nil {
			t.Error(err)
		}
		time.Sleep(3 * time.Second)
		idle(3)
		n.close()
	})
}

func TestExecStreamEndsWithItsSink(t *testing.T) {
	n := newNode(t)
	sb := n.create()
	n.machine(sb.ID).guest.exec = func(_ context.Context, _ guestproto.ExecRequest, sink func(guestproto.ExecEvent) error) error {
		return sink(guestproto.ExecEvent{Type: guestproto.ExecStdout, Data: []byte("x")})
	}
	gone := errors.New("gone")
	err := n.svc.ExecStream(t.Context(), sb.ID, api.Exec{Cmd: "x"}, func(guestproto.ExecEvent) error { return gone })
	if !errors.Is(err, gone) {
		t.Errorf("got %v, want the sink's error", err)
	}
}

func (n *node) setTTL(id string, ttl int) api.Lifecycle {
	n.t.Helper()
	life, err := n.svc.SetLifecycle(n.t.Context(), id, api.SetLifecycle{TTLSeconds: &ttl})
	if err != nil {
		n.t.Fatalf("SetLifecycle: %v", err)
	}
	return life
}
