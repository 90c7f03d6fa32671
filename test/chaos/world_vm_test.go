//go:build vm

// Package chaos runs operations against a model of what they must have done, and
// kills the server, shims and VMMs meanwhile.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pandastack/api"
	"pandastack/client"
	"pandastack/test/harness"
)

// callTime bounds every call: nothing may hang, whatever was killed.
const callTime = 2 * time.Minute

// world is a server and what it has acknowledged.
type world struct {
	t     testing.TB
	s     *harness.Server
	rnd   *rand.Rand
	boxes []*sandbox
	snaps []*snapshot
	made  int      // names given
	pool  int      // machines that wait ready at most
	steps []string // done so far
}

// count is what a counter may be: a call that was cut off may have counted.
type count struct{ least, most int }

// sandbox counts in a variable and in a file, which a cell writes durably.
type sandbox struct {
	id, kernel string
	status     string
	count      count
	files      map[string]string // written over the API
	lossy      bool              // its machine may have been killed
	maybeGone  bool              // its deletion was not acknowledged
}

type snapshot struct {
	name, kernel string
	count        count
	maybe        bool // not acknowledged
	maybeGone    bool
}

func newWorld(t testing.TB, seed uint64, pool int) *world {
	t.Logf("seed %d", seed)
	w := &world{t: t, rnd: rand.New(rand.NewPCG(seed, 0)), pool: pool}
	w.s = harness.Start(t, harness.NewDir(t), w.poolMax())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d; steps:\n%s", seed, strings.Join(w.steps, "\n"))
		}
	})
	return w
}

// restart starts the server again after it was stopped or killed.
func (w *world) restart(environment ...string) {
	w.t.Helper()
	select {
	case <-w.s.Ended():
	default:
		w.s.Stop(w.t)
	}
	w.s = harness.Start(w.t, w.s.Dir, append(environment, w.poolMax())...)
}

func (w *world) poolMax() string { return fmt.Sprintf("PANDASTACK_POOL_MAX=%d", w.pool) }

func (w *world) call() (context.Context, context.CancelFunc) {
	return context.WithTimeout(w.t.Context(), callTime)
}

func (w *world) note(format string, args ...any) {
	w.steps = append(w.steps, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func codeOf(err error) string {
	var refusal *client.Error
	if errors.As(err, &refusal) {
		return refusal.Code
	}
	return ""
}

// counting is the cell that counts. The file is durable before the cell ends.
const counting = `
import os
n += 1
with open("/workspace/n.new", "w") as f:
    f.write(str(n)); f.flush(); os.fsync(f.fileno())
os.rename("/workspace/n.new", "/workspace/n")
folder = os.open("/workspace", os.O_RDONLY); os.fsync(folder); os.close(folder)
n`

// execute runs a cell and gives its value.
func (w *world) execute(b *sandbox, code string) (string, error) {
	ctx, cancel := w.call()
	defer cancel()
	ex, err := w.s.Execute(ctx, b.id, b.kernel, api.Execute{Code: code})
	if err != nil {
		return "", err
	}
	if ex.Error != nil {
		return "", fmt.Errorf("%s: %s", ex.Error.Name, ex.Error.Value)
	}
	for _, r := range ex.Results {
		if r.IsMainResult {
			return strings.Trim(string(r.Data["text/plain"]), `"`), nil
		}
	}
	return "", nil
}

// settle makes the model agree with what the server says after something was cut
// off, as far as that may be, and removes what nobody was told of.
func (w *world) settle() {
	w.t.Helper()
	ctx, cancel := w.call()
	defer cancel()
	listed, err := w.s.Sandboxes(ctx)
	if err != nil {
		w.t.Fatalf("list sandboxes: %v", err)
	}
	for _, found := range listed {
		if !slices.ContainsFunc(w.boxes, func(b *sandbox) bool { return b.id == found.ID }) {
			w.note("remove %s (%s), which was not acknowledged", found.ID, found.Status)
			if err := w.s.DeleteSandbox(ctx, found.ID); err != nil && codeOf(err) != api.CodeSandboxNotFound {
				w.t.Errorf("remove a sandbox that was not acknowledged: %v", err)
			}
		}
	}
	w.boxes = slices.DeleteFunc(w.boxes, func(b *sandbox) bool {
		i := slices.IndexFunc(listed, func(found api.Sandbox) bool { return found.ID == b.id })
		if i < 0 {
			if !b.maybeGone {
				w.t.Errorf("sandbox %s is lost", b.id)
			}
			return true
		}
		b.status, b.maybeGone = listed[i].Status, false
		if b.status == "failed" && !b.lossy {
			w.t.Errorf("sandbox %s failed, and nobody killed its machine: %s", b.id, listed[i].Failure)
		}
		return false
	})
	w.settleSnapshots(ctx)
}

func (w *world) settleSnapshots(ctx context.Context) {
	w.t.Helper()
	listed, err := w.s.Snapshots(ctx)
	if err != nil {
		w.t.Fatalf("list snapshots: %v", err)
	}
	w.snaps = slices.DeleteFunc(w.snaps, func(sn *snapshot) bool {
		there := slices.ContainsFunc(listed, func(found api.Snapshot) bool { return found.Name == sn.name })
		if !there && !sn.maybe && !sn.maybeGone {
			w.t.Errorf("snapshot %s is lost", sn.name)
		}
		sn.maybe, sn.maybeGone = false, false
		return !there
	})
	if len(listed) != len(w.snaps) {
		w.t.Errorf("%d snapshots are listed, want %d", len(listed), len(w.snaps))
	}
}

// look compares a sandbox with the model, waking it if it must.
func (w *world) look(b *sandbox) {
	w.t.Helper()
	if b.status == "paused" {
		ctx, cancel := w.call()
		defer cancel()
		if _, err := w.s.Resume(ctx, b.id); err != nil {
			w.t.Errorf("resume %s: %v", b.id, err)
			return
		}
	}
	value, err := w.execute(b, "n")
	if b.lossy && codeOf(err) == api.CodeSandboxFailed { // its shim is still armed
		value, err = w.execute(b, "n")
	}
	if b.lossy && codeOf(err) == api.CodeContextNotFound {
		w.lookAtDisk(b)
		return
	}
	if err != nil {
		w.t.Errorf("look at %s, which was %s: %s %v", b.id, b.status, codeOf(err), err)
		return
	}
	b.status, b.lossy = "running", false
	w.counted(b, "variable", value)
	for path, want := range b.files {
		if got, err := w.read(b, path); err != nil || got != want {
			w.t.Errorf("%s of %s has %d bytes (%v), want %d", path, b.id, len(got), err, len(want))
		}
	}
}

// lookAtDisk is for a sandbox that has lost its memory.
func (w *world) lookAtDisk(b *sandbox) {
	w.t.Helper()
	ctx, cancel := w.call()
	defer cancel()
	if got, err := w.s.Sandbox(ctx, b.id); err != nil || got.Start.Lost != "memory" {
		w.t.Errorf("%s lost its kernel and does not say so: %+v, %v", b.id, got.Start, err)
	}
	c, err := w.s.CreateContext(ctx, b.id, api.CreateContext{})
	if err != nil {
		w.t.Errorf("a context in %s: %v", b.id, err)
		return
	}
	b.kernel, b.status, b.lossy, b.files = c.ID, "running", false, map[string]string{}
	value, err := w.execute(b, `n = int(open("/workspace/n").read()); n`)
	if err != nil {
		w.t.Errorf("the file in %s: %v", b.id, err)
		return
	}
	w.counted(b, "file", value)
}

func (w *world) counted(b *sandbox, what, value string) {
	w.t.Helper()
	n, err := strconv.Atoi(value)
	if err != nil || n < b.count.least || n > b.count.most {
		w.t.Errorf("the %s of %s is %q, want %d to %d", what, b.id, value, b.count.least, b.count.most)
		return
	}
	b.count = count{n, n}
}

// tidy wants nothing on the host but what the sandboxes, snapshots and the pool have.
func (w *world) tidy() {
	w.t.Helper()
	harness.Await(w.t, time.Minute, "the host to have nothing but what is known", w.untidy)
}

func (w *world) untidy() error {
	running, hibernated, folders := map[string]bool{}, 0, map[string]bool{}
	for _, b := range w.boxes {
		switch b.status {
		case "running", "paused":
			running[b.id], folders[b.id] = true, true
		case "failed":
			folders[b.id] = true // its disk
		case "hibernated":
			hibernated++
		}
	}
	var errs []error
	unknown := slices.DeleteFunc(names(w.s.Dir, "runs"), func(name string) bool { return folders[name] })
	if ready, err := w.ready(); err != nil || len(unknown) != ready {
		errs = append(errs, fmt.Errorf("folders %v in runs, and %d machines wait ready (%v)", unknown, ready, err))
	}
	for _, name := range unknown { // if they are the pool's, so is what runs in them
		running[name] = true
	}
	machines := 0
	for _, p := range harness.Processes(w.s.Dir) {
		if p.PID == w.s.PID() {
			continue
		}
		machines++
		if !slices.ContainsFunc(p.Args, func(a string) bool { return ofAny(a, running) }) {
			errs = append(errs, fmt.Errorf("process %v", p))
		}
	}
	if machines != 2*len(running) {
		errs = append(errs, fmt.Errorf("%d processes for %d machines", machines, len(running)))
	}
	saves := names(w.s.Dir, "saves")
	if len(saves) != hibernated+len(w.snaps) {
		errs = append(errs, fmt.Errorf("%d saves (%v) for %d hibernated sandboxes and %d snapshots", len(saves), saves, hibernated, len(w.snaps)))
	}
	return errors.Join(errs...)
}

// ready asks how many machines wait ready.
func (w *world) ready() (n int, err error) {
	if w.pool == 0 {
		return 0, nil
	}
	ctx, cancel := w.call()
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.s.URL+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+w.s.Key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	_, after, found := strings.Cut(string(text), "\npandastack_pool_ready ")
	if !found {
		return 0, errors.New("the metrics do not say")
	}
	_, err = fmt.Sscan(after, &n)
	return n, err
}

func ofAny(arg string, ids map[string]bool) bool {
	for id := range ids {
		if strings.Contains(arg, id) {
			return true
		}
	}
	return false
}

func names(dir, sub string) (all []string) {
	entries, _ := os.ReadDir(filepath.Join(dir, sub))
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}
