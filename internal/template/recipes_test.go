package template

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"pandastack/api"
	"pandastack/internal/panda"
)

const mine = `name: mine
base: {debian: trixie}
python:
  packages: ["humanize>=4", "polars[excel]"]
  requirements: more.txt
files:
  - {from: app, to: /opt/app}
  - {from: app/run.sh, to: /usr/local/bin/run}
start: run
ready: "true"
variants: [{cpu: 2}, {memory_mb: 2048}]
`

// mineFolder is a user's recipe on disk.
func mineFolder(t *testing.T, recipe string) string {
	t.Helper()
	dir := t.TempDir()
	for name, mode := range map[string]fs.FileMode{recipeFile: 0o644, "more.txt": 0o644, "app/run.sh": 0o755, "app/data/a.txt": 0o644, "unused": 0o644} {
		content := "content of " + name
		switch name {
		case recipeFile:
			content = recipe
		case "more.txt":
			content = "# wishes\nidna ; python_version > '3'\n"
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// register makes a template of a user's folder as a build does, without building.
func register(t *testing.T, b *Builder, folder, inputs string) (*Source, *Warm) {
	t.Helper()
	src, err := b.loadFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.keep(src); err != nil {
		t.Fatal(err)
	}
	w := testWarm(t, b, testImage(t, b, src), inputs)
	if err := b.noteWarm(src, w); err != nil {
		t.Fatal(err)
	}
	return src, w
}

func TestFolderIsKeptAndFound(t *testing.T) {
	b := testBuilder(t, Config{})
	folder := mineFolder(t, mine)
	src, _ := register(t, b, folder, "1")
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	again, err := b.load("mine")
	if err != nil {
		t.Fatal(err)
	}
	if again.folderKey() != src.Kept || again.RecipeKey() != src.RecipeKey() || again.Kept != src.Kept {
		t.Errorf("kept it is another recipe: %+v, was %+v", again, src)
	}
	want := []File{
		{From: "app/data/a.txt", To: "/opt/app/data/a.txt"},
		{From: "app/run.sh", To: "/opt/app/run.sh", Mode: 0o755},
		{From: "app/run.sh", To: "/usr/local/bin/run", Mode: 0o755},
	}
	if !slices.Equal(again.Recipe.Files, want) {
		t.Errorf("files %+v, want %+v", again.Recipe.Files, want)
	}
	if got := strings.Join(again.wanted(), "|"); got != "ipython|comm|humanize>=4|polars[excel]|idna ; python_version > '3'" {
		t.Errorf("wanted packages %s", got)
	}
	if _, err := os.Stat(filepath.Join(b.layout.recipe(src.Kept), "unused")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file the recipe does not name: %v", err)
	}
	list, err := b.List(t.Context())
	if err != nil || len(list) != 2 || list[0].Name != "mine" || list[1].Name != "tiny" {
		t.Errorf("List = %+v, %v", list, err)
	}
}

func TestFolderCannotTakeAShippedName(t *testing.T) {
	b := testBuilder(t, Config{})
	_, err := b.Build(t.Context(), BuildRequest{Folder: "testdata/tiny"}, nil)
	if panda.CodeOf(err) != api.CodeTemplateBuildFailed || !strings.Contains(err.Error(), "ships with PandaStack") {
		t.Errorf("got %v", err)
	}
}

func TestFolderCannotReachOut(t *testing.T) {
	b := testBuilder(t, Config{})
	folder := mineFolder(t, mine)
	if err := os.Symlink("/etc/passwd", filepath.Join(folder, "app", "stolen")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.loadFolder(folder); err == nil || !strings.Contains(err.Error(), "files[0].from cannot be read") {
		t.Errorf("a link to /etc/passwd: %v", err)
	}
	if _, err := b.loadFolder(filepath.Join(folder, "nothing")); err == nil {
		t.Error("a folder that is not there loads")
	}
}

func TestFailedBuildLeavesTheTemplate(t *testing.T) {
	b := testBuilder(t, Config{}) // starts no machines, so that the bake fails
	src, w := register(t, b, mineFolder(t, mine), "1")
	changed := mineFolder(t, mine+"description: another\n")
	if _, err := b.Build(t.Context(), BuildRequest{Folder: changed}, nil); err == nil {
		t.Fatal("it was built")
	}
	rec, err := b.readRecord("mine")
	if err != nil || rec.Recipe != src.Kept || rec.Warm[w.Manifest.Variant.String()] != w.Key() || rec.Failure == "" {
		t.Errorf("record %+v, %v", rec, err)
	}
}

func TestRemove(t *testing.T) {
	b := testBuilder(t, Config{})
	src, w := register(t, b, mineFolder(t, mine), "1")
	testWarm(t, b, testImage(t, b, tinySource(t)), "2")
	if err := b.Remove(t.Context(), "mine"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.load("mine"); panda.CodeOf(err) != api.CodeTemplateNotFound {
		t.Errorf("it is still there: %v", err)
	}
	if err := b.Remove(t.Context(), "mine"); panda.CodeOf(err) != api.CodeTemplateNotFound {
		t.Errorf("removed again: %v", err)
	}
	freed, err := b.GC(t.Context(), []string{w.Key()}) // a sandbox goes on
	if err != nil || !slices.Equal(freed.Paths, []string{b.layout.recipe(src.Kept)}) {
		t.Errorf("with a sandbox freed %q, %v; want the recipe", freed.Paths, err)
	}
	freed, err = b.GC(t.Context(), nil)
	want := []string{w.Dir, w.Image.Dir, filepath.Dir(w.Initrd)}
	slices.Sort(want)
	slices.Sort(freed.Paths)
	if err != nil || !slices.Equal(freed.Paths, want) {
		t.Errorf("freed\n%q, %v\nwant\n%q", freed.Paths, err, want)
	}
	if got := status(t, b); got != statusReady {
		t.Errorf("the other template is %s", got)
	}
}

func TestRemoveShippedKeepsItsRecipe(t *testing.T) {
	b := testBuilder(t, Config{})
	w := testWarm(t, b, testImage(t, b, tinySource(t)), "1")
	if err := b.Remove(t.Context(), "tiny"); err != nil {
		t.Fatal(err)
	}
	if got := status(t, b); got != statusNotBuilt {
		t.Errorf("it is %s", got)
	}
	if freed, err := b.GC(t.Context(), nil); err != nil || len(freed.Paths) != 3 || !slices.Contains(freed.Paths, w.Dir) {
		t.Errorf("freed %q, %v; want snapshot, image and initrd", freed.Paths, err)
	}
}

func TestPrune(t *testing.T) {
	b := testBuilder(t, Config{})
	img := testImage(t, b, tinySource(t))
	img.Manifest.Debian = []DebianPackage{{Name: "used", SHA256: hashBytes([]byte("used deb"))}}
	img.Manifest.Python = []PythonPackage{{Name: "used", Hashes: []string{"sha256:" + hashBytes([]byte("used wheel"))}}}
	if err := writeJSON(filepath.Join(img.Dir, "manifest.json"), img.Manifest); err != nil {
		t.Fatal(err)
	}
	archives := filepath.Join(b.layout.aptCache(), "trixie", "archives")
	old := []string{filepath.Join(archives, "old.deb"), filepath.Join(b.layout.wheels(), "old.whl")}
	kept := []string{filepath.Join(archives, "used.deb"), filepath.Join(b.layout.wheels(), "used.whl")}
	if err := os.MkdirAll(archives, 0o700); err != nil {
		t.Fatal(err)
	}
	for i, content := range []string{"old deb", "old wheel", "used deb", "used wheel"} {
		if err := os.WriteFile(append(slices.Clone(old), kept...)[i], []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	freed, err := b.Prune(t.Context())
	if err != nil || !slices.Equal(freed.Paths, old) || freed.Bytes == 0 {
		t.Errorf("removed %q, %d bytes, %v; want %q", freed.Paths, freed.Bytes, err, old)
	}
	for _, path := range kept {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

func TestKernelOfOldImagesIsMadeReadable(t *testing.T) {
	b := testBuilder(t, Config{})
	img := testImage(t, b, tinySource(t)) // its files have mode 0600
	w := testWarm(t, b, img, "1")
	for _, path := range []string{img.Kernel(), w.Initrd} {
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.openWarm(w.Key()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{img.Kernel(), w.Initrd} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v; want mode 0644", path, info.Mode(), err)
		}
	}
}

func TestSizesAreLimited(t *testing.T) {
	b := testBuilder(t, Config{})
	src := tinySource(t)
	img := testImage(t, b, src)
	testWarm(t, b, img, "1")
	err := b.changeRecord("tiny", func(r *record) {
		for len(r.Warm) < maxVariants {
			r.Warm[Variant{CPU: 1, MemoryMB: 512 + len(r.Warm)}.String()] = "key"
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.roomFor(src, img, Variant{CPU: 1, MemoryMB: 512 + 1}); err != nil {
		t.Errorf("a size it has: %v", err)
	}
	if err := b.roomFor(src, img, Variant{CPU: 3, MemoryMB: 512}); panda.CodeOf(err) != api.CodeRequestInvalid {
		t.Errorf("one more size: %v", err)
	}
}

func TestReadReport(t *testing.T) {
	list, err := readReport([]byte(`{"version":"1","install":[{"metadata":{"name":"idna","version":"3.10"},"download_info":{"url":"u","archive_info":{"hash":"sha256=aa","hashes":{"sha256":"aa"}}}}]}`))
	if err != nil || len(list) != 1 || string(formatLock(list)) != "idna==3.10 --hash=sha256:aa\n" {
		t.Errorf("got %+v, %v", list, err)
	}
	for _, bad := range []string{``, `{}`, `[]`, `{"install":[{"metadata":{"name":"x","version":"1"},"download_info":{"dir_info":{}}}]}`} {
		if _, err := readReport([]byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

func TestRequirements(t *testing.T) {
	for _, bad := range []string{"-r other.txt", "--index-url https://example.org", "pkg @ https://example.org/p.whl", "./here", "git+https://x/y", "a b"} {
		if _, err := parseRequirements([]byte(bad + "\n")); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestRecipeWithPythonWishes(t *testing.T) {
	for name, tt := range map[string]struct{ old, new, want string }{
		"lock and wishes": {"  requirements: more.txt", "  lock: more.txt", "python has a lock"},
		"bad wish":        {`"humanize>=4"`, `"--pre"`, "python.packages[0]"},
		"many variants":   {"variants: [", "variants: [{cpu: 3}, {cpu: 4}, {cpu: 5}, {cpu: 6}, {cpu: 7}, {cpu: 8}, ", "variants has 8"},
		"bad variant":     {"{cpu: 2}", "{cpu: 65}", "variants[0].cpu is 65"},
		"warm, no Python": {"python:\n  packages: [\"humanize>=4\", \"polars[excel]\"]\n  requirements: more.txt\n", "warm: {imports: [json]}\n", "warm needs Python"},
	} {
		tree := fstest.MapFS{
			recipeFile: {Data: []byte(strings.Replace(mine, tt.old, tt.new, 1))}, "more.txt": {Data: []byte("idna\n")},
			"app/run.sh": {Data: []byte("x"), Mode: 0o755},
		}
		if _, err := Load(tree); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}
