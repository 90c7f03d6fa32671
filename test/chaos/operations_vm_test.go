//go:build vm

package chaos

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"pandastack/api"
)

// atMost sandboxes and snapshots exist at a time.
const atMost = 3

// operation is one call or a few, and what the model makes of it. do changes the
// model for whatever of it may have happened; its error is nil, or one that must
// not be unless something was killed.
type operation struct {
	name   string
	weight int
	do     func(w *world) error
}

var operations = []operation{
	{"create", 2, (*world).create},
	{"count", 6, on((*world).countOnce)},
	{"write", 2, on((*world).write)},
	{"pause", 2, on((*world).pause)},
	{"resume", 3, on((*world).resume)},
	{"hibernate", 3, on((*world).hibernate)},
	{"wake", 2, on((*world).wake)},
	{"snapshot", 3, on((*world).snapshot)},
	{"restore", 3, (*world).restore},
	{"fork", 2, on((*world).fork)},
	{"delete", 2, on((*world).remove)},
	{"delete snapshot", 1, (*world).removeSnapshot},
}

// pick draws one by weight.
func (w *world) pick() operation {
	total := 0
	for _, o := range operations {
		total += o.weight
	}
	at := w.rnd.IntN(total)
	for _, o := range operations {
		if at -= o.weight; at < 0 {
			return o
		}
	}
	panic("unreachable")
}

// on does it to some sandbox; the first is made.
func on(do func(*world, *sandbox) error) func(*world) error {
	return func(w *world) error {
		if len(w.boxes) == 0 {
			return w.create()
		}
		b := w.boxes[w.rnd.IntN(len(w.boxes))]
		w.note("  %s, %s at %v", b.id, b.status, b.count)
		return do(w, b)
	}
}

func (w *world) name(kind string) string {
	w.made++
	return fmt.Sprintf("%s-%d", kind, w.made)
}

// create makes one that counts from 0.
func (w *world) create() error {
	if len(w.boxes) >= atMost {
		return nil
	}
	ctx, cancel := w.call()
	defer cancel()
	made, err := w.s.CreateSandbox(ctx, api.CreateSandbox{Metadata: map[string]string{"made": w.name("box")}})
	if err != nil {
		return err
	}
	b := &sandbox{id: made.ID, status: "running", files: map[string]string{}}
	c, err := w.s.CreateContext(ctx, b.id, api.CreateContext{})
	if err != nil {
		return err // settle removes it
	}
	b.kernel = c.ID
	if _, err := w.execute(b, "n = -1"+counting); err != nil {
		return err
	}
	w.boxes = append(w.boxes, b)
	return nil
}

// refused wants a refusal in this state, or no error in any other.
func refused(err error, want string) error {
	if want != "" && codeOf(err) == want {
		return nil
	}
	if want != "" && err == nil {
		return fmt.Errorf("was not refused with %s", want)
	}
	return err
}

func (w *world) countOnce(b *sandbox) error {
	if b.status == "paused" {
		_, err := w.execute(b, counting)
		return refused(err, api.CodeSandboxPaused)
	}
	b.count.most++
	value, err := w.execute(b, counting)
	if err != nil {
		return err
	}
	b.status, b.count.least = "running", b.count.most
	if want := fmt.Sprint(b.count.most); value != want {
		return fmt.Errorf("counted to %s, want %s", value, want)
	}
	return nil
}

func (w *world) write(b *sandbox) error {
	path := fmt.Sprintf("/workspace/file-%d", w.rnd.IntN(3))
	content := strings.Repeat(w.name("content "), 1+w.rnd.IntN(5000))
	ctx, cancel := w.call()
	defer cancel()
	if b.status != "paused" {
		delete(b.files, path) // until it is acknowledged
	}
	err := w.s.WriteFile(ctx, b.id, path, strings.NewReader(content))
	if b.status == "paused" {
		return refused(err, api.CodeSandboxPaused)
	}
	if err == nil {
		b.status, b.files[path] = "running", content
	}
	return err
}

func (w *world) read(b *sandbox, path string) (string, error) {
	ctx, cancel := w.call()
	defer cancel()
	body, err := w.s.ReadFile(ctx, b.id, path)
	if err != nil {
		return "", err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	return string(text), err
}

// turn makes a call after which the sandbox has a status.
func (w *world) turn(b *sandbox, call func(context.Context, string) (api.Sandbox, error), refusal string) error {
	ctx, cancel := w.call()
	defer cancel()
	got, err := call(ctx, b.id)
	if err == nil {
		b.status = got.Status
	}
	return refused(err, refusal)
}

func (w *world) pause(b *sandbox) error {
	refusal := ""
	if b.status == "hibernated" {
		refusal = api.CodeSandboxNotRunning
	}
	return w.becomes(b, "paused", refusal, w.s.Pause)
}

func (w *world) becomes(b *sandbox, status, refusal string, call func(context.Context, string) (api.Sandbox, error)) error {
	if err := w.turn(b, call, refusal); err != nil || refusal != "" {
		return err
	}
	if b.status != status {
		return fmt.Errorf("it is %s, want %s", b.status, status)
	}
	return nil
}

func (w *world) resume(b *sandbox) error { return w.becomes(b, "running", "", w.s.Resume) }

func (w *world) hibernate(b *sandbox) error { return w.becomes(b, "hibernated", "", w.s.Hibernate) }

func (w *world) wake(b *sandbox) error {
	return w.becomes(b, "running", "", func(ctx context.Context, id string) (api.Sandbox, error) { return w.s.Wake(ctx, id, "") })
}

func (w *world) snapshot(b *sandbox) error {
	if len(w.snaps) >= atMost {
		return nil
	}
	ctx, cancel := w.call()
	defer cancel()
	sn := &snapshot{name: w.name("snap"), kernel: b.kernel, count: b.count, maybe: true}
	w.snaps = append(w.snaps, sn)
	if _, err := w.s.TakeSnapshot(ctx, b.id, sn.name); err != nil {
		return err
	}
	sn.maybe = false
	return nil
}

func (w *world) restore() error {
	if len(w.snaps) == 0 || len(w.boxes) >= atMost {
		return nil
	}
	return w.restoreOf(w.snaps[w.rnd.IntN(len(w.snaps))])
}

func (w *world) restoreOf(sn *snapshot) error {
	ctx, cancel := w.call()
	defer cancel()
	made, err := w.s.CreateSandbox(ctx, api.CreateSandbox{FromSnapshot: sn.name})
	if err != nil {
		return err
	}
	b := &sandbox{id: made.ID, kernel: sn.kernel, status: made.Status, count: sn.count, files: map[string]string{}}
	w.note("  restored %s from %s at %v", b.id, sn.name, b.count)
	w.boxes = append(w.boxes, b)
	return w.glance(b)
}

// glance sees that a copy has the variable of what it was made from.
func (w *world) glance(b *sandbox) error {
	value, err := w.execute(b, "n")
	if err == nil {
		w.counted(b, "variable", value)
	}
	return err
}

func (w *world) fork(b *sandbox) error {
	if len(w.boxes) >= atMost {
		return nil
	}
	ctx, cancel := w.call()
	defer cancel()
	forked, err := w.s.ForkTree(ctx, b.id, 1+w.rnd.IntN(atMost-len(w.boxes)))
	if err != nil {
		return err
	}
	for _, child := range forked.Children {
		made := &sandbox{id: child.ID, kernel: b.kernel, status: child.Status, count: b.count, files: maps.Clone(b.files)}
		w.boxes = append(w.boxes, made)
		if err := w.glance(made); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) remove(b *sandbox) error {
	ctx, cancel := w.call()
	defer cancel()
	b.maybeGone = true
	if err := w.s.DeleteSandbox(ctx, b.id); err != nil {
		return err
	}
	w.boxes = slices.DeleteFunc(w.boxes, func(other *sandbox) bool { return other == b })
	return nil
}

func (w *world) removeSnapshot() error {
	if len(w.snaps) == 0 {
		return nil
	}
	return w.removeSnapshotOf(w.snaps[w.rnd.IntN(len(w.snaps))])
}

func (w *world) removeSnapshotOf(sn *snapshot) error {
	ctx, cancel := w.call()
	defer cancel()
	sn.maybeGone = true
	if err := w.s.DeleteSnapshot(ctx, sn.name); err != nil {
		return err
	}
	w.snaps = slices.DeleteFunc(w.snaps, func(other *snapshot) bool { return other == sn })
	return nil
}
