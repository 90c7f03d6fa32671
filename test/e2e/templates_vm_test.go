//go:build vm

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"pandastack/api"
	"pandastack/test/harness"
)

// templateSteps is how long building a small template may take.
const templateSteps = 15 * time.Minute

// example is the template that the documentation shows, with the first size only.
func example(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "my-template")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(harness.Root(), "examples", "my-template"))); err != nil {
		t.Fatal(err)
	}
	change(t, dir, "variants:\n  - cpu: 2\n", "")
	return dir
}

// change edits a folder's recipe.
func change(t *testing.T, dir, old, new string) {
	t.Helper()
	path := filepath.Join(dir, "template.yaml")
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), old) {
		t.Fatalf("%s has no %q: %v", path, old, err)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), old, new)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// shell runs a line in a sandbox that is to end with 0, and gives its output.
func shell(t *testing.T, s *harness.Server, box, line string) string {
	t.Helper()
	out, err := s.Exec(t.Context(), box, api.Exec{Cmd: line, TimeoutSeconds: 60})
	if err != nil || out.ExitCode != 0 {
		t.Fatalf("%s: %v, exit code %d\n%s%s", line, err, out.ExitCode, out.Stdout, out.Stderr)
	}
	return strings.TrimSpace(out.Stdout)
}

// TestUserTemplate takes the documentation's example from its folder to a sandbox.
func TestUserTemplate(t *testing.T) {
	dir := harness.EmptyDir(t)
	folder := example(t)
	out := harness.Program(t, dir, templateSteps, "template", "build", folder)
	if !strings.Contains(out, "template my-template") {
		t.Errorf("the build says nothing of its name:\n%s", out)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	s := harness.Start(t, dir)
	box, err := s.CreateSandbox(t.Context(), api.CreateSandbox{Template: "my-template"})
	if err != nil {
		t.Fatal(err)
	}
	if box.CPU != 1 || box.MemoryMB != 512 {
		t.Errorf("size %d CPU, %d MB", box.CPU, box.MemoryMB)
	}
	if got := shell(t, s, box.ID, `echo '{"n": [1, 2]}' | jq -c .n`); got != "[1,2]" {
		t.Errorf("jq: %s", got)
	}
	if got := shell(t, s, box.ID, "curl -fsS http://127.0.0.1:8000/"); !strings.HasPrefix(got, "hello from my template (") {
		t.Errorf("the server in the sandbox answers %q", got)
	}
	kernel := s.NewContext(t, box.ID)
	code := `import os, sys
import humanize
os.environ["GREETING"], humanize.intcomma(1234567), "sqlite3" in sys.modules`
	if got := s.Text(t, box.ID, kernel, code); got != `('hello from my template', '1,234,567', True)` {
		t.Errorf("in a cell: %s", got)
	}
	assertResolved(t, s)
	t.Run("another size", func(t *testing.T) { assertSize(t, s) })
	t.Run("failures", func(t *testing.T) { assertFailures(t, dir) })
	t.Run("remove", func(t *testing.T) { assertRemoved(t, s, box.ID) })
}

// assertResolved wants the versions and digests that the wishes resolved to.
func assertResolved(t *testing.T, s *harness.Server) {
	t.Helper()
	got, err := s.Template(t.Context(), "my-template")
	if err != nil {
		t.Fatal(err)
	}
	var in struct {
		Python []struct {
			Name, Version string
			Hashes        []string
		}
	}
	if err := json.Unmarshal(got.Packages, &in); err != nil {
		t.Fatal(err)
	}
	for _, p := range in.Python {
		if p.Name == "humanize" && p.Version != "" && len(p.Hashes) == 1 && strings.HasPrefix(p.Hashes[0], "sha256:") {
			return
		}
	}
	t.Errorf("the manifest lacks humanize with its digest: %s", got.Packages)
}

// assertSize asks for a size that is not baked yet.
func assertSize(t *testing.T, s *harness.Server) {
	want := api.CreateSandbox{Template: "my-template", CPU: 2, MemoryMB: 640}
	var box api.Sandbox
	harness.Await(t, templateSteps, "the size to be baked", func() (err error) {
		box, err = s.CreateSandbox(t.Context(), want)
		if code := codeOf(err); err != nil && code != api.CodeTemplateBuilding {
			return harness.Never(err)
		}
		return err
	})
	if got := shell(t, s, box.ID, "nproc; awk '/MemTotal/ {print ($2 > 500000)}' /proc/meminfo"); got != "2\n1" || box.CPU != 2 || box.MemoryMB != 640 {
		t.Errorf("%q, and the record says %d CPU, %d MB", got, box.CPU, box.MemoryMB)
	}
	again, err := s.CreateSandbox(t.Context(), want)
	if err != nil {
		t.Errorf("again, from the cache: %v", err)
	}
	s.Remove(t, box.ID)
	s.Remove(t, again.ID)
	_, err = s.CreateSandbox(t.Context(), api.CreateSandbox{Template: "my-template", MemoryMB: 1 << 20})
	assertRefused(t, err, api.CodeRequestInvalid, "memory_mb")
}

// assertFailures builds what cannot be built; the image's steps are cached.
func assertFailures(t *testing.T, dir string) {
	for name, tt := range map[string]struct{ old, new, want string }{
		"start": {"start: exec python3 /opt/app/server.py 8000", "start: echo no such thing >&2; exit 7", "step warm: start command: it ended with 7 before it was ready"},
		"cell":  {"- import sqlite3", "- 1/0", "ZeroDivisionError"},
		"field": {"packages: [jq, curl]", "pakages: [jq]", "pakages"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := example(t)
			change(t, folder, tt.old, tt.new)
			out := harness.ProgramFails(t, dir, templateSteps, "template", "build", folder)
			if !strings.Contains(out, tt.want) {
				t.Errorf("it says\n%s\nwant %q", out, tt.want)
			}
		})
	}
}

// assertRemoved drops the template under its sandbox, which goes on.
func assertRemoved(t *testing.T, s *harness.Server, box string) {
	harness.Program(t, s.Dir, time.Minute, "template", "rm", "my-template")
	_, err := s.CreateSandbox(t.Context(), api.CreateSandbox{Template: "my-template"})
	assertRefused(t, err, api.CodeTemplateNotFound, "my-template")
	if got := shell(t, s, box, "jq -n 1"); got != "1" {
		t.Errorf("the sandbox: %s", got)
	}
	s.Remove(t, box)
	harness.Program(t, s.Dir, time.Minute, "template", "prune")
	for _, sub := range []string{"images/*/base.ext4", "warm/*", "boot/*", "recipes/*", "cache/wheels/*", "cache/apt/*/archives/*.deb"} {
		if left, _ := filepath.Glob(filepath.Join(s.Dir, sub)); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
}

// TestBaseTemplate has no Python: exec and files work, contexts are refused with
// what to do.
func TestBaseTemplate(t *testing.T) {
	dir := harness.EmptyDir(t)
	harness.Program(t, dir, templateSteps, "template", "build", "base")
	s := harness.Start(t, dir)
	box, err := s.CreateSandbox(t.Context(), api.CreateSandbox{Template: "base"})
	if err != nil {
		t.Fatal(err)
	}
	if got := shell(t, s, box.ID, "command -v python3 || echo none; echo $VIRTUAL_ENV; . /etc/os-release; echo $ID"); got != "none\n\ndebian" {
		t.Errorf("exec: %q", got)
	}
	status, body := s.Call(t, "PUT", "/v1/sandboxes/"+box.ID+"/fs?path=note.txt", "hello")
	if status != 200 || shell(t, s, box.ID, "cat /workspace/note.txt") != "hello" {
		t.Errorf("write: %d %s", status, body)
	}
	_, err = s.CreateContext(t.Context(), box.ID, api.CreateContext{})
	assertRefused(t, err, api.CodeContextUnsupportedLanguage, "no Python")
	t.Run("published client's default", func(t *testing.T) {
		client := exec.Command("../../scripts/test-clients.sh", "node-default")
		client.Env = append(os.Environ(), "PANDASTACK_API="+s.URL, "PANDASTACK_API_KEY="+s.Key)
		if out, err := client.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("refresh", func(t *testing.T) {
		ageImage(t, dir)
		out := harness.Program(t, dir, templateSteps, "template", "build", "base", "--refresh")
		if strings.Count(out, "changed: ") != 1 || !strings.Contains(out, "changed: ~ curl:amd64 0.1 (") {
			t.Errorf("want the one package that changed:\n%s", out)
		}
		if shell(t, s, box.ID, "echo on") != "on" {
			t.Error("the sandbox of the old image")
		}
	})
}

// ageImage makes the one image of a data directory look as if it were built when
// curl was at another version.
func ageImage(t *testing.T, dir string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "images", "*", "manifest.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("images: %q, %v", found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	image := filepath.Dir(found[0])
	digest, old := filepath.Base(image), strings.Repeat("0", 64)
	curl := regexp.MustCompile(`("name": "curl",\s+"version": )"[^"]*"`)
	aged := curl.ReplaceAllString(strings.ReplaceAll(string(text), digest, old), `$1"0.1"`)
	if aged == string(text) || os.WriteFile(found[0], []byte(aged), 0o600) != nil || os.Rename(image, filepath.Join(dir, "images", old)) != nil {
		t.Fatal("the image could not be changed")
	}
	notes, err := filepath.Glob(filepath.Join(dir, "images", "by-recipe", "*"))
	if err != nil || len(notes) != 1 || os.WriteFile(notes[0], []byte(old+"\n"), 0o600) != nil {
		t.Fatalf("what leads to it: %q, %v", notes, err)
	}
}

// TestKilledBake kills a build while its machine runs; the next server ends that.
func TestKilledBake(t *testing.T) {
	dir := harness.NewUnwarmedDir(t)
	build := harness.Background(t, dir, "template", "build", "code-interpreter")
	harness.Await(t, templateSteps, "the bake's machine", func() error {
		for _, p := range harness.Processes(dir) {
			if p.IsVMM() {
				return nil
			}
		}
		return os.ErrNotExist
	})
	if err := build.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s := harness.Start(t, dir)
	s.Clean(t)
}
