package cli

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pandastack/api"
)

// guestFiles is a sandbox whose files are told by a test, true or not.
type guestFiles struct {
	*answers
	stat map[string]api.FileInfo
	dirs map[string][]api.FileInfo
	puts map[string]string
	argv []string
}

func newGuestFiles(t *testing.T) *guestFiles {
	g := &guestFiles{answers: newAnswers(t), stat: map[string]api.FileInfo{}, dirs: map[string][]api.FileInfo{}, puts: map[string]string{}}
	g.routes = map[string]http.HandlerFunc{
		"GET /v1/sandboxes/box1/fs/stat": func(w http.ResponseWriter, r *http.Request) {
			info, ok := g.stat[r.URL.Query().Get("path")]
			if !ok {
				reply(w, 404, api.Error{Error: "no such file", Code: api.CodeFileNotFound})
				return
			}
			reply(w, 200, info)
		},
		"GET /v1/sandboxes/box1/fs/dir": func(w http.ResponseWriter, r *http.Request) {
			reply(w, 200, api.Directory{Entries: g.dirs[r.URL.Query().Get("path")]})
		},
		"GET /v1/sandboxes/box1/fs": func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "content of "+r.URL.Query().Get("path"))
		},
		"PUT /v1/sandboxes/box1/fs": func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			g.puts[r.URL.Query().Get("path")] = string(body)
			reply(w, 200, api.FileWritten{})
		},
		"POST /v1/sandboxes/box1/exec": func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			g.argv = append(g.argv, string(body))
			reply(w, 200, api.ExecResult{})
		},
	}
	return g
}

func regular(name string) api.FileInfo { return api.FileInfo{Name: name, Mode: "-rw-r--r--", Size: 1} }
func folder(name string) api.FileInfo {
	return api.FileInfo{Name: name, IsDir: true, Mode: "drwxr-xr-x"}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

func TestCopyOutOfASandbox(t *testing.T) {
	g := newGuestFiles(t)
	g.stat["data"] = folder("data")
	script := regular("täst")
	script.Mode = "-rwxr-xr-x"
	g.dirs["data"] = []api.FileInfo{script, folder("sub"), {Name: "link", Link: "/etc", Mode: "lrwxrwxrwx"}, {Name: "pipe", Mode: "prw-r--r--"}}
	g.dirs["data/sub"] = []api.FileInfo{regular("x"), folder("empty")}
	target := t.TempDir()
	got := g.command(t.Context(), "cp", "box1:data", target)
	want := "not copied: data/link: a symbolic link\nnot copied: data/pipe: not a regular file\ncopied 2 files (42 B)\n"
	if got.code != 1 || got.errOut != want {
		t.Errorf("%+v, want %q", got, want)
	}
	if text := read(t, filepath.Join(target, "data/täst")); text != "content of data/täst" {
		t.Errorf("content %q", text)
	}
	if info, err := os.Stat(filepath.Join(target, "data/täst")); err != nil || info.Mode()&0o100 == 0 {
		t.Errorf("a program lost its mode: %v, %v", info, err)
	}
	if info, err := os.Stat(filepath.Join(target, "data/sub/empty")); err != nil || !info.IsDir() {
		t.Errorf("the empty folder: %v, %v", info, err)
	}
	if left, _ := filepath.Glob(filepath.Join(target, "data/.partial-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestCopyTargets(t *testing.T) {
	g := newGuestFiles(t)
	g.stat["/a/f"], g.stat["d"] = regular("f"), folder("d")
	g.dirs["d"] = []api.FileInfo{regular("x")}
	t.Chdir(t.TempDir())
	for _, c := range []struct{ from, to, want string }{
		{"box1:/a/f", ".", "f"},
		{"box1:/a/f", "new", "new"},
		{"box1:/a/f", "deep/er/", "deep/er/f"},
		{"box1:d", "copy", "copy/x"},
		{"box1:d", "copy", "copy/d/x"}, // now it exists
		{"box1:d/.", "into", "into/x"},
		{"box1:d/.", "into", "into/x"},
	} {
		g.stat["d/."] = g.stat["d"]
		if got := g.command(t.Context(), "cp", c.from, c.to); got.code != 0 {
			t.Errorf("%s %s: %+v", c.from, c.to, got)
		}
		if text := read(t, c.want); !strings.HasPrefix(text, "content of ") {
			t.Errorf("%s %s: %q", c.from, c.to, text)
		}
	}
	if _, err := os.Stat("into/d"); err == nil {
		t.Error("the contents of a folder were copied with the folder")
	}
}

func TestCopyRefusesNamesThatLeadOut(t *testing.T) {
	for _, name := range []string{"..", ".", "", "/etc/passwd", "../x", "a/b", "x\x00y"} {
		g := newGuestFiles(t)
		g.stat["d"] = folder("d")
		g.dirs["d"] = []api.FileInfo{regular("good"), {Name: name, Mode: "-rw-r--r--"}}
		parent := t.TempDir()
		got := g.command(t.Context(), "cp", "box1:d", filepath.Join(parent, "target"))
		if got.code != 1 || !strings.Contains(got.errOut, "outside the target") {
			t.Errorf("%q: %+v", name, got)
		}
		if left, _ := os.ReadDir(parent); len(left) > 0 {
			t.Errorf("%q: something was written: %v", name, left)
		}
	}
	g := newGuestFiles(t)
	g.stat["/x/.."] = api.FileInfo{Name: "..", Path: "/..", IsDir: true}
	if got := g.command(t.Context(), "cp", "box1:/x/..", t.TempDir()); got.code != 0 && !strings.Contains(got.errOut, "outside") {
		t.Errorf("%+v", got)
	}
}

func TestCopyDoesNotFollowLinksInTheTarget(t *testing.T) {
	g := newGuestFiles(t)
	g.stat["d/."] = folder("d")
	g.dirs["d"] = []api.FileInfo{folder("out"), regular("file")}
	g.dirs["d/out"] = []api.FileInfo{regular("x")}
	target, elsewhere := t.TempDir(), t.TempDir()
	victim := filepath.Join(elsewhere, "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"out": elsewhere, "file": victim} {
		if err := os.Symlink(to, filepath.Join(target, name)); err != nil {
			t.Fatal(err)
		}
	}
	if got := g.command(t.Context(), "cp", "box1:d/.", target); got.code != 1 {
		t.Errorf("%+v", got)
	}
	if err := os.Remove(filepath.Join(target, "out")); err != nil {
		t.Fatal(err)
	}
	if got := g.command(t.Context(), "cp", "box1:d/.", target); got.code != 0 {
		t.Errorf("%+v", got)
	}
	left, _ := os.ReadDir(elsewhere)
	if len(left) != 1 || read(t, victim) != "mine" {
		t.Errorf("written through a link: %v", left)
	}
}

func TestCopyGivesUpOnEndlessFolders(t *testing.T) {
	g := newGuestFiles(t)
	g.stat["d"] = folder("d")
	g.routes["GET /v1/sandboxes/box1/fs/dir"] = func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, api.Directory{Entries: []api.FileInfo{folder("d")}})
	}
	if got := g.command(t.Context(), "cp", "box1:d", t.TempDir()); got.code != 1 || !strings.Contains(got.errOut, errTooMany.Error()) {
		t.Errorf("%+v", got)
	}
}

func TestCopyIntoASandbox(t *testing.T) {
	g := newGuestFiles(t)
	g.stat["/srv"] = folder("srv")
	from := filepath.Join(t.TempDir(), "pröject")
	for name, mode := range map[string]os.FileMode{"a.txt": 0o644, "sub/run": 0o755} {
		if err := os.MkdirAll(filepath.Join(from, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(from, name), []byte(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := errorsOf(os.Mkdir(filepath.Join(from, "empty"), 0o755), os.Symlink("/etc", filepath.Join(from, "link"))); err != nil {
		t.Fatal(err)
	}
	got := g.command(t.Context(), "cp", from, "box1:/srv")
	if got.code != 1 || !strings.Contains(got.errOut, "link: a symbolic link\ncopied 2 files (12 B)\n") {
		t.Errorf("%+v", got)
	}
	if len(g.puts) != 2 || g.puts["/srv/pröject/a.txt"] != "a.txt" || g.puts["/srv/pröject/sub/run"] != "sub/run" {
		t.Errorf("written: %v", g.puts)
	}
	want := []string{`{"argv":["mkdir","-p","--","/srv/pröject/empty"]}`, `{"argv":["chmod","+x","--","/srv/pröject/sub/run"]}`}
	if !slices.Equal(g.argv, want) {
		t.Errorf("ran %v, want %v", g.argv, want)
	}
	if got := g.command(t.Context(), "cp", filepath.Join(from, "a.txt"), "box1:b.txt"); got.code != 0 || g.puts["b.txt"] != "a.txt" {
		t.Errorf("%+v, written %v", got, g.puts)
	}
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestPlaces(t *testing.T) {
	for arg, want := range map[string]place{
		"abc:x/y": {"abc", "x/y"}, "abc:": {"abc", "."}, "./a:b": {"", "./a:b"}, "file": {"", "file"}, "A:b": {"", "A:b"}, ":x": {"", ":x"},
	} {
		if got := placeOf(arg); got != want {
			t.Errorf("%s: %+v, want %+v", arg, got, want)
		}
	}
}
