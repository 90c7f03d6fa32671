package boundlog

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBeginningAndLatestPartAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "console.log")
	w := create(t, path, 100)
	write(t, w, strings.Repeat("a", 100), strings.Repeat("b", 250), "the end")
	if got, want := read(t, open(t, path)), strings.Repeat("a", 100)+strings.Repeat("b", 150)+"the end"; got != want {
		t.Errorf("got %d bytes %q, want %d", len(got), got, len(want))
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil || len(files) != 1+kept {
		t.Errorf("files: got %v, %v, want %d", files, err, 1+kept)
	}
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.Size() > 100 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: got %v, %v", file, info, err)
		}
	}
}

func TestReaderFollows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "console.log")
	w := create(t, path, 10)
	r := open(t, path)
	for _, text := range []string{"", "one", "two", "three more", "four", strings.Repeat("5", 9)} {
		write(t, w, text)
		if got := read(t, r); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	write(t, w, strings.Repeat("lost", 20), "kept")
	if got := read(t, r); !strings.HasSuffix(got, "kept") || len(got) > 30 {
		t.Errorf("after a gap: got %q", got)
	}
}

func TestCreateRemovesTheOldLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "console.log")
	write(t, create(t, path, 2), "abcdefgh")
	other := filepath.Join(filepath.Dir(path), "console.x.log")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, create(t, path, 2), "z")
	if got := read(t, open(t, path)); got != "z" {
		t.Errorf("got %q, want z", got)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("a file that is none of the log's: %v", err)
	}
}

func TestLinksAreNotRead(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "console.log")
	if err := os.Symlink(secret, path); err != nil {
		t.Fatal(err)
	}
	if r, err := Open(path); err == nil {
		t.Errorf("Open followed a link and reads %q", read(t, r))
	}
}

func create(t *testing.T, path string, limit int64) *Writer {
	t.Helper()
	w, err := Create(path, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func write(t *testing.T, w *Writer, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatalf("Write: got %d, %v", n, err)
		}
	}
}

func open(t *testing.T, path string) *Reader {
	t.Helper()
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func read(t *testing.T, r *Reader) string {
	t.Helper()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
