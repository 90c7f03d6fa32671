package guest_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"pandastack/internal/guestproto"
)

func (a *agent) put(t testing.TB, path, content string) guestproto.FileInfo {
	t.Helper()
	info, err := a.WriteFile(deadline(t), guestproto.WriteRequest{Path: path}, strings.NewReader(content))
	if err != nil {
		t.Fatalf("write %s: %v", path, err)
	}
	return info
}

func (a *agent) get(t testing.TB, path string) (guestproto.FileInfo, string) {
	t.Helper()
	info, body, err := a.ReadFile(deadline(t), path)
	if err != nil {
		t.Fatalf("read %s: %v", path, err)
	}
	defer func() { _ = body.Close() }()
	b, err := io.ReadAll(body)
	if err != nil {
		t.Fatalf("read %s: %v", path, err)
	}
	return info, string(b)
}

func TestFilesAreReplacedWhole(t *testing.T) {
	a := start(t)
	work := a.Root + "/workspace"
	info := a.put(t, "new/folder/ümlaut & co.txt", "one")
	if want := work + "/new/folder/ümlaut & co.txt"; info.Path != want || info.Size != 3 || info.Mode != "-rw-r--r--" {
		t.Fatalf("got %+v", info)
	}
	path := filepath.Join(work, "script")
	if err := os.WriteFile(path, []byte("old"), 0o750); err != nil {
		t.Fatal(err)
	}
	open, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = open.Close() }()
	if info = a.put(t, "script", "new"); info.Mode != "-rwxr-x---" {
		t.Fatalf("the old mode is kept: got %s", info.Mode)
	}
	if b, _ := io.ReadAll(open); string(b) != "old" {
		t.Fatalf("who has the old file open reads %q, want the old content", b)
	}
	if info, text := a.get(t, path); text != "new" || info.Name != "script" {
		t.Fatalf("got %+v, %q", info, text)
	}
	info, err = a.WriteFile(deadline(t), guestproto.WriteRequest{Path: "script", Mode: 0o600, NoSync: true}, strings.NewReader(""))
	if err != nil || info.Mode != "-rw-------" || info.Size != 0 {
		t.Fatalf("got %+v, %v", info, err)
	}
	list, err := a.ListDir(deadline(t), ".")
	if err != nil || len(list) != 2 || list[0].Name != "new" || !list[0].IsDir || list[1].Name != "script" {
		t.Fatalf("got %+v, %v", list, err)
	}
}

func TestLinks(t *testing.T) {
	a := start(t)
	work := a.Root + "/workspace"
	a.put(t, "dir/target", "old")
	for link, target := range map[string]string{"link": "dir/target", "dangling": "dir/none", "out": "/etc", "outfile": "/etc/passwd"} {
		if err := os.Symlink(target, filepath.Join(work, link)); err != nil {
			t.Fatal(err)
		}
	}
	a.put(t, "link", "new")
	if _, text := a.get(t, "dir/target"); text != "new" {
		t.Fatalf("writing through a link: the target holds %q", text)
	}
	if info, err := a.Stat(deadline(t), "link"); err != nil || info.Link != "dir/target" || info.Size != 3 {
		t.Fatalf("got %+v, %v", info, err)
	}
	if info, err := a.Stat(deadline(t), "dangling"); err != nil || info.Link != "dir/none" {
		t.Fatalf("got %+v, %v", info, err)
	}
	for _, path := range []string{"out/passwd", "outfile", "../x", "dir/../../x"} {
		_, _, err := a.ReadFile(deadline(t), path)
		wantCode(t, err, guestproto.CodePathEscape)
		_, err = a.WriteFile(deadline(t), guestproto.WriteRequest{Path: path}, strings.NewReader("x"))
		wantCode(t, err, guestproto.CodePathEscape)
	}
	if _, text := a.get(t, "/etc/passwd"); !strings.Contains(text, "root") {
		t.Fatalf("absolute paths mean the whole guest: got %q", text)
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	a := start(t)
	work := a.Root + "/workspace"
	a.put(t, "file", "x")
	if err := os.Mkdir(work+"/dir", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(work+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(path string) error {
		_, _, err := a.ReadFile(deadline(t), path)
		return err
	}
	write := func(path string) error {
		_, err := a.WriteFile(deadline(t), guestproto.WriteRequest{Path: path}, strings.NewReader("x"))
		return err
	}
	list := func(path string) error {
		_, err := a.ListDir(deadline(t), path)
		return err
	}
	for _, test := range []struct {
		name string
		call func(string) error
		path string
		want string
	}{
		{"read", read, "none", guestproto.CodeNotFound},
		{"read", read, "dir", guestproto.CodeIsDirectory},
		{"read", read, "file/x", guestproto.CodeNotDir},
		{"read", read, "fifo", guestproto.CodeInvalid},
		{"read", read, "/dev/zero", guestproto.CodeInvalid},
		{"read", read, "a\x00b", guestproto.CodeInvalid},
		{"read", read, strings.Repeat("a/", 2500), guestproto.CodeInvalid},
		{"read", read, strings.Repeat("a", 300), guestproto.CodeInvalid},
		{"write", write, "dir", guestproto.CodeIsDirectory},
		{"write", write, "dir/", guestproto.CodeIsDirectory},
		{"write", write, ".", guestproto.CodeIsDirectory},
		{"write", write, "fifo", guestproto.CodeInvalid},
		{"write", write, "/dev/null", guestproto.CodeInvalid},
		{"write", write, "file/x", guestproto.CodeNotDir},
		{"write", write, "/proc/x", guestproto.CodeNotFound},
		{"list", list, "none", guestproto.CodeNotFound},
		{"list", list, "file", guestproto.CodeNotDir},
		{"list", list, "fifo", guestproto.CodeNotDir},
	} {
		if err := test.call(test.path); code(err) != test.want {
			t.Errorf("%s %.20q: got %v (%s), want %s", test.name, test.path, err, code(err), test.want)
		}
	}
	names, _ := filepath.Glob(work + "/.*")
	if len(names) != 0 {
		t.Errorf("left behind: %v", names)
	}
}

func TestGeneratedFile(t *testing.T) {
	a := start(t)
	if info, text := a.get(t, "/proc/self/status"); !strings.HasPrefix(text, "Name:") || info.Size != int64(len(text)) {
		t.Fatalf("got %+v, %q", info, text)
	}
}

// failing ends in an error after some bytes.
type failing struct{ left int }

func (f *failing) Read(b []byte) (int, error) {
	if f.left <= 0 {
		return 0, errors.New("the upload broke off")
	}
	n := min(len(b), f.left)
	f.left -= n
	return n, nil
}

func TestUploadThatBreaksOffChangesNothing(t *testing.T) {
	a := start(t)
	a.put(t, "file", "old")
	_, err := a.WriteFile(deadline(t), guestproto.WriteRequest{Path: "file"}, &failing{3 << 20})
	if err == nil {
		t.Fatal("want an error")
	}
	if _, text := a.get(t, "file"); text != "old" {
		t.Fatalf("got %d bytes, want the old file", len(text))
	}
	eventually(t, "only the file is left", func() bool {
		entries, err := os.ReadDir(a.Root + "/workspace")
		return err == nil && len(entries) == 1
	})
}

func TestLargeFile(t *testing.T) {
	a := start(t)
	const size = 64<<20 + 1234 // its last block is not whole
	source := rand.NewChaCha8([32]byte{})
	sum := sha256.New()
	body := io.TeeReader(io.LimitReader(source, size), sum)
	info, err := a.WriteFile(deadline(t), guestproto.WriteRequest{Path: "large"}, body)
	if err != nil || info.Size != size {
		t.Fatalf("got %+v, %v", info, err)
	}
	_, file, err := a.ReadFile(deadline(t), "large")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	got := sha256.New()
	if _, err := io.Copy(got, file); err != nil || !bytes.Equal(got.Sum(nil), sum.Sum(nil)) {
		t.Fatalf("read back: %v, equal %t", err, bytes.Equal(got.Sum(nil), sum.Sum(nil)))
	}
	if rss := a.rss(t); rss > 100<<20 && !raced {
		t.Fatalf("the agent holds %d MiB after a file of 64 MiB", rss>>20)
	}
}

func (a *agent) rss(t testing.TB) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(a.PID), "statm"))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

func BenchmarkUpload(b *testing.B)   { benchmarkFile(b, true) }
func BenchmarkDownload(b *testing.B) { benchmarkFile(b, false) }

func benchmarkFile(b *testing.B, up bool) {
	a := start(b)
	content := strings.Repeat("x", 32<<20)
	a.put(b, "file", content)
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		if up {
			_, err := a.WriteFile(deadline(b), guestproto.WriteRequest{Path: "file", NoSync: true}, strings.NewReader(content))
			if err != nil {
				b.Fatal(err)
			}
			continue
		}
		_, body, err := a.ReadFile(deadline(b), "file")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, body); err != nil {
			b.Fatal(err)
		}
		_ = body.Close()
	}
}
