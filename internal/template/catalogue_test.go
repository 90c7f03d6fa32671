package template

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pandastack/api"
	"pandastack/internal/kit/flock"
	"pandastack/internal/panda"
)

// testWarm publishes a snapshot with no content and makes it the current one.
func testWarm(t *testing.T, b *Builder, img *Image, inputs string) *Warm {
	t.Helper()
	m := WarmManifest{
		Format: formatVersion, Name: img.Manifest.Name, Inputs: inputs, Image: img.Manifest.Digest,
		Initrd: "initrd-of-" + inputs, Variant: Variant{CPU: 1, MemoryMB: 256}, Key: warmKey(inputs, ""),
	}
	files := map[string]string{
		filepath.Join(b.layout.warm(m.Key), "manifest.json"): mustJSON(m),
		filepath.Join(b.layout.boot(m.Initrd), "initrd"):     "",
	}
	for path, content := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w, err := b.openWarm(m.Key)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.noteWarm(&Source{Recipe: Recipe{Name: img.Manifest.Name}}, w); err != nil {
		t.Fatal(err)
	}
	return w
}

func status(t *testing.T, b *Builder) string {
	t.Helper()
	list, err := b.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Name != "tiny" {
		t.Fatalf("List = %+v, %v; want the template tiny", list, err)
	}
	return list[0].Status
}

func TestStatus(t *testing.T) {
	b := testBuilder(t, Config{})
	if got := status(t, b); got != statusNotBuilt {
		t.Errorf("at first it is %s", got)
	}
	if err := b.noteFailure("tiny", errors.New("step venv")); err != nil {
		t.Fatal(err)
	}
	if got := status(t, b); got != statusFailed {
		t.Errorf("after a failure it is %s", got)
	}
	l, err := flock.Try(b.layout.lockFile("template-tiny"))
	if err != nil {
		t.Fatal(err)
	}
	if got := status(t, b); got != statusBuilding {
		t.Errorf("during a build it is %s", got)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	img := testImage(t, b, tinySource(t))
	testWarm(t, b, img, "1")
	got, err := b.Get(t.Context(), "tiny")
	if err != nil || got.Status != statusReady || got.Digest != img.Manifest.Digest || got.BuiltAt == nil || got.Packages == nil {
		t.Errorf("when built it is %+v, %v", got, err)
	}
}

func TestUnknownTemplate(t *testing.T) {
	b := testBuilder(t, Config{})
	for _, name := range []string{"nothing", "", "..", "../testdata/tiny", "tiny/../tiny"} {
		if _, err := b.Get(t.Context(), name); panda.CodeOf(err) != api.CodeTemplateNotFound {
			t.Errorf("Get(%q) = %v, want %s", name, err, api.CodeTemplateNotFound)
		}
		if _, err := b.Ensure(t.Context(), name, nil); panda.CodeOf(err) != api.CodeTemplateNotFound {
			t.Errorf("Ensure(%q) = %v, want %s", name, err, api.CodeTemplateNotFound)
		}
	}
}

func TestBadRecipeIsReported(t *testing.T) {
	b := testBuilder(t, Config{Recipes: os.DirFS("testdata/bad")})
	_, err := b.Ensure(t.Context(), "bad", nil)
	if panda.CodeOf(err) != api.CodeTemplateBuildFailed {
		t.Errorf("Ensure = %v, want %s", err, api.CodeTemplateBuildFailed)
	}
}

func TestGC(t *testing.T) {
	b := testBuilder(t, Config{})
	img := testImage(t, b, tinySource(t))
	used := testWarm(t, b, img, "1")    // by a sandbox
	unused := testWarm(t, b, img, "2")  // by nobody
	current := testWarm(t, b, img, "3") // by the template
	for _, dir := range []string{b.layout.image("stale"), b.layout.boot("stale"), b.layout.build("stale"), b.layout.build(tinySource(t).RecipeKey())} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(b.layout.byRecipe("old"), []byte("stale"), 0o600); err != nil {
		t.Fatal(err)
	}
	freed, err := b.GC(t.Context(), []string{used.Key()})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		unused.Dir, b.layout.image("stale"), b.layout.boot("stale"), filepath.Dir(unused.Initrd),
		b.layout.byRecipe("old"), b.layout.build("stale"),
	}
	removed := freed.Paths
	slices.Sort(removed)
	slices.Sort(want)
	if !slices.Equal(removed, want) {
		t.Errorf("removed\n%q\nwant\n%q", removed, want)
	}
	for _, w := range []*Warm{used, current} {
		if _, err := b.openWarm(w.Key()); err != nil {
			t.Errorf("snapshot in use: %v", err)
		}
	}
}

func TestGCLeavesRunningBuildsAlone(t *testing.T) {
	b := testBuilder(t, Config{})
	hold, err := flock.AcquireShared(t.Context(), b.layout.lockFile("gc"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.GC(t.Context(), nil); !errors.Is(err, ErrBusy) {
		t.Errorf("GC during a build = %v, want ErrBusy", err)
	}
	if err := hold.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.GC(t.Context(), nil); err != nil {
		t.Errorf("GC after it = %v", err)
	}
}

func TestNoteWarmDropsOtherImages(t *testing.T) {
	b := testBuilder(t, Config{})
	img := testImage(t, b, tinySource(t))
	testWarm(t, b, img, "1")
	err := b.changeRecord("tiny", func(r *record) { r.Image, r.Warm = "old", map[string]string{"4cpu-1mb": "old"} })
	if err != nil {
		t.Fatal(err)
	}
	testWarm(t, b, img, "2")
	rec, err := b.readRecord("tiny")
	if err != nil || len(rec.Warm) != 1 || rec.Image != img.Manifest.Digest {
		t.Errorf("record = %+v, %v; want the new image with one snapshot", rec, err)
	}
}
