//go:build vm

package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pandastack/api"
	"pandastack/internal/vmm"
	"pandastack/test/harness"
)

// saveFolders lists the saves of a data directory.
func saveFolders(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "saves"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, filepath.Join(dir, "saves", e.Name()))
	}
	return all
}

// TestUnfitSaves changes what is on disk: what is damaged and what is of another
// host is refused, and the disk can still be booted.
func TestUnfitSaves(t *testing.T) {
	dir := harness.NewDir(t)
	s := harness.Start(t, dir)
	p := newSession(t, s)
	p.run("x = 1\nimport os, random\njunk = random.Random(1).randbytes(16 << 20)\nwith open('/workspace/kept', 'w') as f: f.write('kept')")
	sn := must(s.TakeSnapshot(t.Context(), p.box, ""))(t)
	p.run("x = 2")
	must(s.Hibernate(t.Context(), p.box))(t)
	saves := saveFolders(t, dir)
	i := slices.IndexFunc(saves, func(path string) bool { return filepath.Base(path) != sn.ID })
	if i < 0 || len(saves) != 2 {
		t.Fatalf("saves: %v", saves)
	}
	save := saves[i]
	files, err := os.ReadDir(save)
	if err != nil || len(files) != 5 { // with a layer on a layer
		t.Fatalf("the save has %v, %v", files, err)
	}
	for _, f := range files {
		t.Run(f.Name(), func(t *testing.T) { assertDamageFound(t, p, filepath.Join(save, f.Name())) })
	}
	t.Run("host", func(t *testing.T) { assertHostCompared(t, p, filepath.Join(save, "save.json")) })
	t.Run("snapshot", func(t *testing.T) {
		defer replace(t, filepath.Join(saves[1-i], "state"), flip)()
		_, err := s.CreateSandbox(t.Context(), api.CreateSandbox{FromSnapshot: sn.ID})
		assertRefused(t, err, api.CodeSnapshotDamaged, "")
	})
	must(s.Wake(t.Context(), p.box, ""))(t) // all is as it was
	p.is("2", "x")
	p.run("os.sync()")
	must(s.Hibernate(t.Context(), p.box))(t)
	for _, save := range saveFolders(t, dir) {
		if filepath.Base(save) != sn.ID {
			replace(t, filepath.Join(save, "save.json"), cut) // it goes with the save
		}
	}
	got := must(s.Wake(t.Context(), p.box, "disk"))(t)
	if got.Start.Kind != "booted" || got.Start.Lost != "memory" {
		t.Errorf("woken from disk: %+v", got.Start)
	}
	p.kernel = s.NewContext(t, p.box)
	p.is("'kept'", "open('/workspace/kept').read()")
}

func flip(content []byte) []byte {
	content[len(content)/2] ^= 0x10
	return content
}

func cut(content []byte) []byte { return content[:len(content)*2/3] }

// replace changes a file, which may have other names, and gives what restores it.
func replace(t *testing.T, path string, change func([]byte) []byte) (restore func()) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err == nil {
		err = errors.Join(os.Rename(path, path+".kept"), os.WriteFile(path, change(content), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Rename(path+".kept", path); err != nil {
			t.Fatal(err)
		}
	}
}

func assertDamageFound(t *testing.T, p *session, path string) {
	changes := map[string]func([]byte) []byte{"flipped": flip, "cut": cut}
	if filepath.Base(path) == "save.json" { // a flipped one may still be JSON
		delete(changes, "flipped")
	}
	for name, change := range changes {
		restore := replace(t, path, change)
		_, err := p.Wake(t.Context(), p.box, "")
		assertRefused(t, err, api.CodeSnapshotDamaged, "damaged")
		restore()
		log, err := os.ReadFile(p.Dir + ".log")
		if err != nil || !strings.Contains(string(log[max(0, len(log)-4096):]), filepath.Base(filepath.Dir(path))) ||
			!strings.Contains(string(log[max(0, len(log)-4096):]), filepath.Base(path)) {
			t.Errorf("%s: the log does not name the file: %s (%v)", name, log[max(0, len(log)-4096):], err)
		}
		assertStatus(t, p.Server, p.box, "hibernated")
	}
}

// assertHostCompared edits what the save says of its host.
func assertHostCompared(t *testing.T, p *session, path string) {
	for name, edit := range map[string]func(*vmm.Key){
		"CPU model":  func(k *vmm.Key) { k.CPUModel = "another" },
		"memory":     func(k *vmm.Key) { k.MemoryMB *= 2 },
		"version":    func(k *vmm.Key) { k.Version = "1.0" },
		"time stamp": func(k *vmm.Key) { k.TSCKHz += k.TSCKHz / 100 },
	} {
		restore := replace(t, path, func(text []byte) []byte { return edited(t, text, edit) })
		_, err := p.Wake(t.Context(), p.box, "")
		assertRefused(t, err, api.CodeSnapshotHostMismatch, name)
		restore()
		if _, err := os.Stat(filepath.Join(p.Dir, "runs", p.box)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a machine was started: %v", name, err)
		}
	}
}

func edited(t *testing.T, text []byte, edit func(*vmm.Key)) []byte {
	t.Helper()
	var save map[string]any
	var key vmm.Key
	err := json.Unmarshal(text, &save)
	if err == nil {
		err = json.Unmarshal([]byte(save["compat"].(string)), &key)
	}
	if err != nil {
		t.Fatal(err)
	}
	edit(&key)
	compat, err1 := json.Marshal(key)
	save["compat"] = string(compat)
	out, err2 := json.Marshal(save)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDiskFull fills the data directory's file system, a small one, to different
// levels: what cannot be saved goes on, and what was saved is whole.
func TestDiskFull(t *testing.T) {
	dir := smallDir(t)
	s := harness.Start(t, dir)
	p := newSession(t, s)
	p.run("import random\nx, junk = 1, random.Random(1).randbytes(20 << 20)")
	old := must(s.TakeSnapshot(t.Context(), p.box, ""))(t)
	p.run("x, junk = 2, random.Random(2).randbytes(20 << 20)")
	for _, free := range []int64{0, 16 << 10, 512 << 10, 4 << 20, 16 << 20} {
		release := fill(t, dir, free)
		_, err := s.TakeSnapshot(t.Context(), p.box, "")
		assertRefused(t, err, api.CodeHostDiskFull, "")
		_, err = s.Hibernate(t.Context(), p.box)
		assertRefused(t, err, api.CodeHostDiskFull, "")
		p.is("2", "x")
		if got := saveFolders(t, dir); len(got) != 1 || filepath.Base(got[0]) != old.ID {
			t.Errorf("with %d bytes free %v is left", free, got)
		}
		release()
	}
	p.cycle()
	p.is("True", "x == 2 and junk == random.Random(2).randbytes(20 << 20)")
	q := p.restored(old.ID)
	q.is("True", "x == 1 and junk == random.Random(1).randbytes(20 << 20)")
}

// smallDir gives a data directory on a file system of its own, on which only the
// template is elsewhere.
func smallDir(t *testing.T) string {
	t.Helper()
	const size = "size=400m"
	from, dir := harness.NewDir(t), harness.EmptyDir(t)
	mount := func(source, target, kind string, flags uintptr, data string) {
		t.Helper()
		if err := syscall.Mount(source, target, kind, flags, data); err != nil {
			t.Fatalf("mount %s: %v", target, err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(target, syscall.MNT_DETACH); err != nil {
				t.Errorf("unmount %s: %v", target, err)
			}
		})
	}
	mount("small", dir, "tmpfs", 0, size)
	for _, name := range []string{"images", "boot", "warm", "templates"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		mount(filepath.Join(from, name), filepath.Join(dir, name), "", syscall.MS_BIND, "")
	}
	return dir
}

// fill leaves so many bytes free, until release.
func fill(t *testing.T, dir string, free int64) (release func()) {
	t.Helper()
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "filling")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Fallocate(int(f.Fd()), 0, 0, int64(fs.Bavail)*fs.Bsize-free); err != nil {
		t.Fatalf("fill the disk: %v", err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
