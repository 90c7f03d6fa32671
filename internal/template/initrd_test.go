package template

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
)

func testBuilder(t *testing.T, cfg Config) *Builder {
	t.Helper()
	if cfg.Data == "" {
		cfg.Data = t.TempDir()
	}
	if cfg.Recipes == nil {
		cfg.Recipes = os.DirFS("testdata")
	}
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// testImage publishes an image with no content for a recipe.
func testImage(t *testing.T, b *Builder, src *Source) *Image {
	t.Helper()
	m := ImageManifest{Format: formatVersion, Name: src.Recipe.Name, Recipe: src.RecipeKey()}
	m.Digest = imageDigest(&m)
	dir := b.layout.image(m.Digest)
	if err := os.MkdirAll(filepath.Join(dir, "modules"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"modules/order": "a.ko\n", "modules/a.ko": "module", "base.ext4": "", "vmlinux": "",
		"manifest.json": mustJSON(m),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(b.layout.byRecipe(m.Recipe), []byte(m.Digest), 0o600); err != nil {
		t.Fatal(err)
	}
	return &Image{Dir: dir, Manifest: m}
}

func tinySource(t *testing.T) *Source {
	t.Helper()
	src, err := Load(os.DirFS("testdata/tiny"))
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func TestInitrd(t *testing.T) {
	host := fstest.MapFS{
		"__init__.py":                       {Data: []byte("version = 1")},
		"sub/shell.py":                      {Data: []byte("x")},
		"__pycache__/shell.cpython-313.pyc": {Data: []byte("junk")},
	}
	b := testBuilder(t, Config{Agent: []byte("agent"), KernelHost: host})
	img := testImage(t, b, tinySource(t))
	path, key, err := b.Initrd(t.Context(), img)
	if err != nil {
		t.Fatal(err)
	}
	archive, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"init\x00", "modules/order\x00", "modules/a.ko\x00",
		"python/pandastack_kernel/__init__.py\x00", "python/pandastack_kernel/sub/shell.py\x00"} {
		if !bytes.Contains(archive, []byte(name)) {
			t.Errorf("the initrd lacks %q", name)
		}
	}
	if bytes.Contains(archive, []byte("junk")) {
		t.Error("the initrd has byte code of this host")
	}
	if _, again, err := b.Initrd(t.Context(), img); err != nil || again != key {
		t.Errorf("made again its key is %s, %v; want %s", again, err, key)
	}
	host["__init__.py"].Data = []byte("version = 2")
	if _, other, err := b.Initrd(t.Context(), img); err != nil || other == key {
		t.Errorf("with another kernel host its key is %s, %v; want another", other, err)
	}
}

func TestInitrdNeedsAgent(t *testing.T) {
	b := testBuilder(t, Config{})
	if _, _, err := b.Initrd(t.Context(), testImage(t, b, tinySource(t))); err == nil {
		t.Error("an initrd without agent is made")
	}
}
