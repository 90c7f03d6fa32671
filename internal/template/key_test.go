package template

import (
	"path/filepath"
	"strings"
	"testing"
)

func mustLoad(t *testing.T, recipe string) *Source {
	t.Helper()
	src, err := Load(recipeFS(recipe))
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func TestRecipeKey(t *testing.T) {
	key := mustLoad(t, good).RecipeKey()
	same := map[string]string{
		"name":    strings.Replace(good, "demo", "other", 1),
		"memory":  good + "memory_mb: 2048\n",
		"warm-up": strings.Replace(good, "numpy,", "pandas,", 1),
		"comment": "# note\n" + good,
	}
	for what, recipe := range same {
		if mustLoad(t, recipe).RecipeKey() != key {
			t.Errorf("another %s makes another image", what)
		}
	}
	other := map[string]string{
		"package": strings.Replace(good, "[bash,", "[bash, curl,", 1),
		"env":     strings.Replace(good, "C.UTF-8", "C", 1),
		"mode":    strings.Replace(good, "0600", "0644", 1),
	}
	for what, recipe := range other {
		if mustLoad(t, recipe).RecipeKey() == key {
			t.Errorf("another %s does not make another image", what)
		}
	}
	for _, file := range []string{"rc", "requirements.lock"} {
		tree := recipeFS(good)
		tree[file].Data = append([]byte("# edit\n"), tree[file].Data...)
		src, err := Load(tree)
		if err != nil {
			t.Fatal(err)
		}
		if src.RecipeKey() == key {
			t.Errorf("another %s does not make another image", file)
		}
	}
}

func TestDigestKeepsFieldsApart(t *testing.T) {
	a, b := newDigest("x"), newDigest("x")
	a.add("f", "ab")
	a.add("f", "c")
	b.add("f", "a")
	b.add("f", "bc")
	if a.sum() == b.sum() {
		t.Error("ab+c and a+bc have one digest")
	}
}

func TestWarmInputs(t *testing.T) {
	src, img := mustLoad(t, good), &Image{}
	img.Manifest.Digest = "image"
	small := Variant{CPU: 1, MemoryMB: 1024}
	seen := map[string]string{}
	for what, key := range map[string]string{
		"as is":        warmInputs(src, img, "initrd", "quiet", "qemu", small),
		"initrd":       warmInputs(src, img, "other", "quiet", "qemu", small),
		"command line": warmInputs(src, img, "initrd", "debug", "qemu", small),
		"compat":       warmInputs(src, img, "initrd", "quiet", "kvm", small),
		"variant":      warmInputs(src, img, "initrd", "quiet", "qemu", Variant{CPU: 2, MemoryMB: 1024}),
		"warm-up":      warmInputs(mustLoad(t, strings.Replace(good, "numpy,", "", 1)), img, "initrd", "quiet", "qemu", small),
		"start":        warmInputs(mustLoad(t, good+"start: x\n"), img, "initrd", "quiet", "qemu", small),
		"disk":         warmInputs(mustLoad(t, good+"disk_mb: 64\n"), img, "initrd", "quiet", "qemu", small),
	} {
		if was, ok := seen[key]; ok {
			t.Errorf("%s and %s give one key", was, what)
		}
		seen[key] = what
	}
}

func TestDiff(t *testing.T) {
	old := &ImageManifest{
		Kernel: DebianPackage{Name: "linux", Version: "6.12.1", Arch: "amd64", SHA256: "11"},
		Debian: []DebianPackage{
			{Name: "bash", Version: "5.2", Arch: "amd64", SHA256: "aa"},
			{Name: "gone", Version: "1", Arch: "all", SHA256: "bb"},
			{Name: "same", Version: "1", Arch: "all", SHA256: "cc"},
		},
		Python: []PythonPackage{{Name: "numpy", Version: "2.4"}},
	}
	new := &ImageManifest{
		Kernel: DebianPackage{Name: "linux", Version: "6.12.1", Arch: "amd64", SHA256: "22"},
		Debian: []DebianPackage{
			{Name: "bash", Version: "5.3", Arch: "amd64", SHA256: "dd"},
			{Name: "same", Version: "1", Arch: "all", SHA256: "cc"},
			{Name: "came", Version: "2", Arch: "all", SHA256: "ee"},
		},
		Python: []PythonPackage{{Name: "numpy", Version: "2.5"}},
	}
	var got []string
	for _, c := range Diff(old, new) {
		got = append(got, c.String())
	}
	want := []string{
		"~ bash:amd64 5.2 (aa) -> 5.3 (dd)", "+ came:all 2 (ee)", "- gone:all 1 (bb)",
		"~ linux:amd64 6.12.1 (11) -> 6.12.1 (22)", "~ python:numpy 2.4 -> 2.5",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if imageDigest(old) == imageDigest(new) {
		t.Error("both have one digest")
	}
	if d := Diff(old, old); d != nil {
		t.Errorf("Diff with itself = %v", d)
	}
}

func TestStampOfAnotherBootDoesNotCount(t *testing.T) {
	path := filepath.Join(t.TempDir(), "done-venv")
	boot, err := bootID()
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{boot: true, "another": false} {
		if err := writeJSON(path, stamp{Took: StepTime{Name: "venv", MS: 7}, Boot: id}); err != nil {
			t.Fatal(err)
		}
		if took, ok := readStamp(path); ok != want || took.MS != 7 {
			t.Errorf("stamp of boot %s counts: %v, want %v", id, ok, want)
		}
	}
}
