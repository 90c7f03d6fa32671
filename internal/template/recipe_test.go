package template

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"pandastack/templates"
)

// recipeFS is a template's folder with the given recipe, a lock and one file.
func recipeFS(recipe string) fstest.MapFS {
	return fstest.MapFS{
		recipeFile:          {Data: []byte(recipe)},
		"requirements.lock": {Data: []byte("idna==3.10 \\\n    --hash=sha256:aa\nipython==9.1 --hash=sha256:bb\ncomm==0.2 --hash=sha256:cc\n")},
		"loose.lock":        {Data: []byte("--index-url https://example.org/simple\nidna==3.10 --hash=sha256:aa\n")},
		"bare.lock":         {Data: []byte("idna==3.10 --hash=sha256:aa\n")},
		"rc":                {Data: []byte("x")},
	}
}

const good = `name: demo
base:
  debian: trixie
packages: [bash, libstdc++6]
python:
  lock: requirements.lock
files:
  - {from: rc, to: /etc/rc, mode: 0600}
env:
  LANG: C.UTF-8
warm:
  imports: [numpy, matplotlib.pyplot]
`

func TestLoad(t *testing.T) {
	src, err := Load(recipeFS(good))
	if err != nil {
		t.Fatal(err)
	}
	r := src.Recipe
	if r.CPU != 1 || r.MemoryMB != 1024 || r.DiskMB != 8192 {
		t.Errorf("size = %d CPUs, %d MB, %d MB disk; want the defaults 1, 1024, 8192", r.CPU, r.MemoryMB, r.DiskMB)
	}
	if r.Files[0].Mode != 0o600 || string(src.Files["rc"]) != "x" || len(src.Lock) == 0 {
		t.Errorf("mode %o, file %q, lock %q; want them read", r.Files[0].Mode, src.Files["rc"], src.Lock)
	}
}

func TestLoadNamesKeyAndLine(t *testing.T) {
	tests := []struct{ name, old, new, want string }{
		{"unknown key", "packages:", "packets:", "unknown field \"packets\""},
		{"unknown nested key", "  debian: trixie", "  debian: trixie\n  mirror: x", "unknown field \"mirror\""},
		{"wrong type", "name: demo", "name: demo\ncpu: many", "[2:"},
		{"no YAML", "name: demo", "name: [", "template.yaml"},
		{"name", "name: demo", "name: Demo", "template.yaml:1: name is \"Demo\""},
		{"suite", "debian: trixie", "debian: sid", "template.yaml:3: base.debian is \"sid\""},
		{"no base", "base:\n  debian: trixie\n", "", "template.yaml:1: base.debian is \"\""},
		{"package", "libstdc++6", "lib;rm", "template.yaml:4: packages[1] is \"lib;rm\""},
		{"package option", "[bash,", "[-o=x,", "template.yaml:4: packages[0]"},
		{"lock outside", "lock: requirements.lock", "lock: ../x", "template.yaml:6: python.lock"},
		{"lock missing", "lock: requirements.lock", "lock: none.lock", "template.yaml:6: python.lock cannot be read"},
		{"lock without kernel", "lock: requirements.lock", "lock: bare.lock", "template.yaml:6: python.lock lacks ipython"},
		{"lock with index", "lock: requirements.lock", "lock: loose.lock", "template.yaml:6: python.lock has \"--index-url\""},
		{"file missing", "from: rc", "from: nothing", "template.yaml:8: files[0].from cannot be read"},
		{"file relative", "to: /etc/rc", "to: etc/rc", "template.yaml:8: files[0].to"},
		{"file climbs", "to: /etc/rc", "to: /etc/../../rc", "template.yaml:8: files[0].to"},
		{"file mode", "mode: 0600", "mode: 04755", "template.yaml:8: files[0].mode"},
		{"env name", "  LANG:", "  LA-NG:", "template.yaml:10: env.LA-NG"},
		{"env value", "LANG: C.UTF-8", `LANG: "a\nb"`, "template.yaml:10: env.LANG"},
		{"import", "[numpy,", `["numpy; x",`, "template.yaml:12: warm.imports[0]"},
		{"cpu", "name: demo", "name: demo\ncpu: 0", "template.yaml:2: cpu is 0"},
		{"memory", "name: demo", "name: demo\nmemory_mb: 3", "template.yaml:2: memory_mb is 3"},
		{"disk", "name: demo", "name: demo\ndisk_mb: 1", "template.yaml:2: disk_mb is 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			recipe := strings.Replace(good, tt.old, tt.new, 1)
			if recipe == good {
				t.Fatalf("the recipe has no %q", tt.old)
			}
			_, err := Load(recipeFS(recipe))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err = %v\nwant it to say %q", err, tt.want)
			}
		})
	}
}

func TestLoadReportsAllMistakes(t *testing.T) {
	recipe := strings.NewReplacer("demo", "Demo", "trixie", "sid").Replace(good)
	_, err := Load(recipeFS(recipe))
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("err = %v; want one line for each of two mistakes", err)
	}
}

func TestShippedRecipesLoad(t *testing.T) {
	for _, tree := range []fs.FS{templates.FS, os.DirFS("testdata")} {
		names, err := fs.Glob(tree, "*/"+recipeFile)
		if err != nil || len(names) == 0 {
			t.Fatalf("no recipes: %v", err)
		}
		for _, name := range names {
			dir, err := fs.Sub(tree, strings.TrimSuffix(name, "/"+recipeFile))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Load(dir); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestParseLock(t *testing.T) {
	list, err := parseLock([]byte("# note\na==1 \\\n    --hash=sha256:11 \\\n    --hash=sha256:22\n    # via b\nb.c==2 --hash=sha256:33\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].Name != "a" || len(list[0].Hashes) != 2 || list[1].Version != "2" {
		t.Errorf("got %+v", list)
	}
	if again, err := parseLock(formatLock(list)); err != nil || mustJSON(again) != mustJSON(list) {
		t.Errorf("written and read again: %+v, %v", again, err)
	}
	for _, bad := range []string{"", "a>=1 --hash=sha256:1", "a==1", "a==1 --pre", "-r other.txt", "a @ https://example.org/a.whl --hash=sha256:1"} {
		if _, err := parseLock([]byte(bad)); err == nil {
			t.Errorf("parseLock(%q) has no error", bad)
		}
	}
}

func TestMissingWheels(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a-1-py3-none-any.whl"), []byte("whole"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "b-1-py3-none-any.whl"), []byte("ha"), 0o600); err != nil {
		t.Fatal(err)
	}
	lock := fmt.Sprintf("a==1 --hash=sha256:00 --hash=sha256:%s\nb==1 --hash=sha256:%s\n", hashBytes([]byte("whole")), hashBytes([]byte("half")))
	missing, err := missingWheels([]byte(lock), dir)
	if err != nil || len(missing) != 1 || missing[0].Name != "b" {
		t.Errorf("missing %+v, %v; want b, whose file is damaged", missing, err)
	}
}
