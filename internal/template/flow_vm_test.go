//go:build vm

package template

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/panda"
	"pandastack/internal/shim"
)

// script stands for shim, machine and guest: it writes down the calls and fails
// the one named by fail. What the real ones do is tested where they are; here it
// is the order of the calls, and what is left after a failure of each.
type script struct {
	fail       string
	failSecond string // fails not the next such call, but the one after

	mu    sync.Mutex
	calls []string
	spec  shim.Spec
}

var errScript = errors.New("as the script says")

func (s *script) call(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, name)
	if s.failSecond == name {
		s.fail, s.failSecond = name, ""
		return nil
	}
	if s.fail == name {
		return errScript
	}
	return nil
}

func (s *script) Launch(_ context.Context, spec shim.Spec, _ *os.File) (shim.Machine, error) {
	s.spec = spec
	if err := os.WriteFile(filepath.Join(spec.Dir, "console.log"), []byte("last words\n"), 0o600); err != nil {
		return nil, err
	}
	return scriptMachine{s: s}, s.call("launch")
}

func (s *script) Adopt(context.Context, string) (shim.Machine, error) { return nil, errScript }
func (s *script) Reap(context.Context, string) error                  { return s.call("reap") }

type scriptMachine struct {
	shim.Machine // what a bake has no use for
	s            *script
}

func (m scriptMachine) Guest() guestproto.Guest     { return scriptGuest{s: m.s} }
func (m scriptMachine) Close(context.Context) error { return m.s.call("close") }

func (m scriptMachine) Save(_ context.Context, memory, state string) (shim.State, error) {
	for _, path := range []string{memory, state} {
		if err := os.WriteFile(path, make([]byte, 8192), 0o600); err != nil {
			return shim.State{}, err
		}
	}
	return shim.State{Key: `{"vmm":"script"}`}, m.s.call("save")
}

type scriptGuest struct {
	guestproto.Guest // what a bake has no use for
	s                *script
}

func (g scriptGuest) Hello(context.Context) (guestproto.Hello, error) {
	return guestproto.Hello{Version: 1, Agent: "v1"}, g.s.call("hello")
}

func (g scriptGuest) Warm(context.Context, guestproto.WarmRequest) error { return g.s.call("warm") }
func (g scriptGuest) Quiesce(context.Context) error                      { return g.s.call("quiesce") }

// Exec knows the recipe's own lines; what the bake asks beside them prints nothing.
func (g scriptGuest) Exec(_ context.Context, req guestproto.ExecRequest, sink func(guestproto.ExecEvent) error) error {
	line := req.Argv[len(req.Argv)-1]
	if line != "start" && line != "ready" {
		return sink(guestproto.ExecEvent{Type: guestproto.ExecExit})
	}
	if err := g.s.call(line); err != nil {
		return sink(guestproto.ExecEvent{Type: guestproto.ExecExit, ExitCode: 3})
	}
	return sink(guestproto.ExecEvent{Type: guestproto.ExecExit})
}

// served is the tiny recipe with a start command and a ready check.
func served(t *testing.T) fstest.MapFS {
	t.Helper()
	tree := fstest.MapFS{}
	for _, name := range []string{recipeFile, "requirements.lock", "hello.sh"} {
		text, err := os.ReadFile(filepath.Join("testdata/tiny", name))
		if err != nil {
			t.Fatal(err)
		}
		tree["tiny/"+name] = &fstest.MapFile{Data: text}
	}
	tree["tiny/"+recipeFile].Data = append(tree["tiny/"+recipeFile].Data, "start: start\nready: ready\n"...)
	return tree
}

// bakery is a Builder whose image is there and whose machines follow the script.
func bakery(t *testing.T, s *script) *Builder {
	t.Helper()
	b := testBuilder(t, Config{
		Recipes: served(t), Agent: []byte("agent"), Starter: s, Cmdline: "quiet",
		Compat: func(context.Context, int, int) (string, error) { return "script", nil },
	})
	src, err := b.load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	testImage(t, b, src)
	return b
}

func TestBake(t *testing.T) {
	s := new(script)
	b := bakery(t, s)
	var steps, logs []string
	w, err := b.Ensure(t.Context(), "tiny", func(p Progress) {
		switch {
		case p.Finished:
			steps = append(steps, p.Step)
		case p.Log != "":
			logs = append(logs, p.Log)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"launch", "hello", "start", "ready", "warm", "quiesce", "save", "close"}
	if !slices.Equal(s.calls, want) {
		t.Errorf("calls %q, want %q", s.calls, want)
	}
	if !slices.Contains(logs, "guest& start") || !slices.Contains(logs, "guest? ready") {
		t.Errorf("the log was not streamed: %q", logs)
	}
	if len(steps) != bakeStepCount {
		t.Errorf("steps %q, want %d", steps, bakeStepCount)
	}
	for path, size := range map[string]int64{w.Memory(): 8192, w.State(): 8192, w.UpperRaw(): 128 << 20, w.Overlay(): 0} {
		fi, err := os.Stat(path)
		if err != nil || size > 0 && fi.Size() != size {
			t.Errorf("%s: %v, %v; want %d bytes", path, fi, err, size)
		}
	}
	if w.Manifest.Compat != `{"vmm":"script"}` || w.Manifest.Agent != "v1" || w.Manifest.MemoryBytes != 0 {
		t.Errorf("manifest %+v", w.Manifest)
	}
	if n, err := allocated(w.UpperRaw()); err != nil || n > 2<<20 {
		t.Errorf("the empty disk takes %d bytes, %v", n, err)
	}
	if got, err := os.ReadDir(b.layout.path("tmp")); err != nil || len(got) != 0 {
		t.Errorf("left in tmp: %v, %v", got, err)
	}
	// Again, in this process and in another: nothing is started.
	for _, b := range []*Builder{b, testBuilder(t, b.cfg)} {
		if again, err := b.Ensure(t.Context(), "tiny", nil); err != nil || again.Key() != w.Key() || len(s.calls) != len(want) {
			t.Errorf("again: %v, calls %q", err, s.calls)
		}
	}
}

func TestBakeFailures(t *testing.T) {
	for _, tt := range []struct{ fail, step string }{
		{"launch", "boot"}, {"hello", "boot"}, {"start", "warm"}, {"warm", "warm"},
		{"quiesce", "save"}, {"save", "save"}, {"close", "save"},
	} {
		t.Run(tt.fail, func(t *testing.T) {
			s := &script{fail: tt.fail}
			b := bakery(t, s)
			_, err := b.Ensure(t.Context(), "tiny", nil)
			var step *StepError
			if panda.CodeOf(err) != api.CodeTemplateBuildFailed || !errors.As(err, &step) || step.Step != tt.step {
				t.Fatalf("err = %v; want step %s", err, tt.step)
			}
			if !strings.Contains(step.Tail, "last words") {
				t.Errorf("tail %q lacks the console", step.Tail)
			}
			if closed := slices.Contains(s.calls, "close"); closed != (tt.fail != "launch") {
				t.Errorf("calls %q; want the machine closed if it was launched", s.calls)
			}
			if got, err := os.ReadDir(b.layout.path("warm")); err != nil || len(got) != 0 {
				t.Errorf("published %v, %v", got, err)
			}
			if got := status(t, b); got != statusFailed {
				t.Errorf("status %s", got)
			}
			s.fail, s.calls = "", nil
			if _, err := b.Ensure(t.Context(), "tiny", nil); err != nil {
				t.Errorf("the next bake: %v", err)
			}
			if s.calls[0] != "reap" {
				t.Errorf("calls %q; want what was left ended first", s.calls)
			}
		})
	}
}

func TestBakeTakesTurns(t *testing.T) {
	s := new(script)
	b := bakery(t, s)
	var wg sync.WaitGroup
	for range 8 {
		process := testBuilder(t, b.cfg)
		wg.Go(func() {
			if _, err := process.Ensure(t.Context(), "tiny", nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(s.calls); n != 8 {
		t.Errorf("%d calls %q; want those of one bake", n, s.calls)
	}
}

func TestBakeAgainForAnotherHost(t *testing.T) {
	b := bakery(t, new(script))
	old, err := b.Ensure(t.Context(), "tiny", nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := b.cfg
	cfg.Compat = func(context.Context, int, int) (string, error) { return "another", nil }
	next, err := testBuilder(t, cfg).Ensure(t.Context(), "tiny", nil)
	if err != nil || next.Key() == old.Key() {
		t.Fatalf("key %v, %v; want another snapshot", next, err)
	}
	if _, err := b.openWarm(old.Key()); err != nil {
		t.Errorf("the old one, which sandboxes may use: %v", err)
	}
}

// TestFolderBuild makes a template of a folder in two sizes, changes words that
// cost nothing, and fails in the second size.
func TestFolderBuild(t *testing.T) {
	s := new(script)
	b := bakery(t, s)
	recipe := strings.Replace(mine, "start: run\nready: \"true\"\n", "start: start\n", 1)
	recipe = strings.Replace(recipe, "variants: [{cpu: 2}, {memory_mb: 2048}]", "variants: [{cpu: 2}]", 1)
	build := func(recipe string) (Built, error) {
		folder := mineFolder(t, recipe)
		src, err := b.loadFolder(folder)
		if err != nil {
			t.Fatal(err)
		}
		testImage(t, b, src)
		return b.Build(t.Context(), BuildRequest{Folder: folder}, nil)
	}
	built, err := build(recipe)
	if err != nil || built.Name != "mine" || built.Warm.Manifest.Variant.CPU != 1 {
		t.Fatalf("%+v, %v", built, err)
	}
	if rec, err := b.readRecord("mine"); err != nil || len(rec.Warm) != 2 {
		t.Fatalf("record %+v, %v; want two sizes", rec, err)
	}
	calls := len(s.calls)
	if _, err := build(recipe + "description: new words\n"); err != nil || len(s.calls) != calls {
		t.Errorf("new words alone: %v, calls %q", err, s.calls[calls:])
	}
	got, err := b.Get(t.Context(), "mine")
	if err != nil || got.Description != "new words" || got.Status != statusReady {
		t.Errorf("%+v, %v", got, err)
	}
	s.failSecond = "launch"
	if _, err := build(strings.Replace(recipe, "start: start", "start: start\nmemory_mb: 256", 1)); err == nil {
		t.Fatal("the second size was made")
	}
	if got, err := b.Get(t.Context(), "mine"); err != nil || got.MemoryMB != 1024 || got.Status != statusReady {
		t.Errorf("after a failed build it is %+v, %v; want as before", got, err)
	}
}
