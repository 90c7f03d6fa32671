//go:build vm

package e2e

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"pandastack/api"
	"pandastack/test/harness"
)

func TestFiles(t *testing.T) {
	s := harness.Start(t, harness.NewDir(t))
	b := &box{s, s.NewSandbox(t).ID}
	t.Run("large file", b.largeFile)
	t.Run("names", b.names)
	t.Run("replaced as a whole", b.replaced)
	t.Run("list and stat", b.listAndStat)
	t.Run("refused", b.refusedPaths)
	t.Run("together", b.together)
	t.Run("broken off", b.brokenOff)
}

// box is a sandbox with the calls that the Go SDK does not have yet.
type box struct {
	*harness.Server
	id string
}

func (b *box) read(t *testing.T, path string) []byte {
	t.Helper()
	body, err := b.ReadFile(t.Context(), b.id, path)
	if err != nil {
		t.Fatalf("read %q: %v", path, err)
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		t.Fatalf("read %q: %v", path, err)
	}
	return data
}

func (b *box) write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := b.WriteFile(t.Context(), b.id, path, bytes.NewReader(data)); err != nil {
		t.Fatalf("write %q: %v", path, err)
	}
}

func (b *box) exec(t *testing.T, req api.Exec) api.ExecResult {
	t.Helper()
	result, err := b.Exec(t.Context(), b.id, req)
	if err != nil {
		t.Fatalf("exec %+v: %v", req, err)
	}
	return result
}

func (b *box) fs(rest, path string) string {
	return "/v1/sandboxes/" + b.id + "/fs" + rest + "?path=" + url.QueryEscape(path)
}

func (b *box) largeFile(t *testing.T) {
	data := noise(t, 64<<20)
	sum := sha256.Sum256(data)
	want := hex.EncodeToString(sum[:])
	b.write(t, "large.bin", data)
	if got, _, _ := strings.Cut(b.exec(t, api.Exec{Cmd: "sha256sum large.bin"}).Stdout, " "); got != want {
		t.Errorf("in the guest its digest is %s, want %s", got, want)
	}
	if got := b.read(t, "large.bin"); !bytes.Equal(got, data) {
		t.Errorf("it came back as %d other bytes", len(got))
	}
	b.exec(t, api.Exec{Cmd: "rm large.bin"})
}

func (b *box) names(t *testing.T) {
	for _, name := range []string{"数据 表.csv", "café (1).txt", "e\u0301 decomposed", "a+b&c%20d#e?f.txt", "quote'\"s", "-dash", ".hidden", "new\nline", "emoji 😀", strings.Repeat("x", 255)} {
		b.write(t, "/workspace/names/"+name, []byte("body of "+name))
		if got := string(b.read(t, "names/"+name)); got != "body of "+name {
			t.Errorf("%q has %q", name, got)
		}
		var info api.FileInfo
		b.Get(t, b.fs("/stat", "names/"+name), &info)
		if info.Name != name || info.Path != "/workspace/names/"+name {
			t.Errorf("stat calls %q %q, %q", name, info.Name, info.Path)
		}
	}
}

func (b *box) replaced(t *testing.T) {
	b.write(t, "note", []byte("one, and longer than the second"))
	b.exec(t, api.Exec{Cmd: "chmod 750 note"})
	b.write(t, "note", []byte("two"))
	if got := b.exec(t, api.Exec{Cmd: "cat note; stat -c :%a note; ls -A | grep -c note"}).Stdout; got != "two:750\n1\n" {
		t.Errorf("after the second write: %q", got)
	}
	b.write(t, "empty", nil)
	if got := b.read(t, "empty"); len(got) != 0 {
		t.Errorf("an empty file has %q", got)
	}
}

func (b *box) listAndStat(t *testing.T) {
	b.exec(t, api.Exec{Cmd: "mkdir -p shown/sub && printf 12345 >shown/file && ln -s file shown/link"})
	var list api.Directory
	b.Get(t, b.fs("/dir", "shown"), &list)
	slices.SortFunc(list.Entries, func(x, y api.FileInfo) int { return strings.Compare(x.Name, y.Name) })
	var got []string
	for _, e := range list.Entries {
		got = append(got, strings.Join([]string{e.Name, e.Mode[:1], e.Link}, " "))
	}
	if want := []string{"file - ", "link l file", "sub d "}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	var info api.FileInfo
	b.Get(t, b.fs("/stat", "/workspace/shown/file"), &info)
	if info.Size != 5 || info.IsDir || info.Mode != "-rw-r--r--" {
		t.Errorf("stat says %+v", info)
	}
}

func (b *box) refusedPaths(t *testing.T) {
	b.exec(t, api.Exec{Cmd: "mkdir -p folder && ln -sf /etc out && touch plain"})
	for _, c := range []struct{ method, rest, path, code string }{
		{"PUT", "", "../evil", api.CodeFilePathInvalid},
		{"PUT", "", "folder/../../evil", api.CodeFilePathInvalid},
		{"PUT", "", "out/evil", api.CodeFilePathInvalid},
		{"PUT", "", "nul\x00evil", api.CodeFilePathInvalid},
		{"PUT", "", strings.Repeat("x", 256), api.CodeFilePathInvalid},
		{"GET", "", "../etc/passwd", api.CodeFilePathInvalid},
		{"GET", "", "out/passwd", api.CodeFilePathInvalid},
		{"PUT", "", "folder", api.CodeFileIsDirectory},
		{"PUT", "", ".", api.CodeFileIsDirectory},
		{"GET", "", "folder", api.CodeFileIsDirectory},
		{"PUT", "", "plain/file", api.CodeFileNotDirectory},
		{"GET", "/dir", "plain", api.CodeFileNotDirectory},
		{"GET", "", "none", api.CodeFileNotFound},
		{"GET", "/dir", "none", api.CodeFileNotFound},
		{"GET", "/stat", "none", api.CodeFileNotFound},
	} {
		status, body := b.Call(t, c.method, b.fs(c.rest, c.path), "evil", "Content-Type", "application/octet-stream")
		if status != api.Lookup(c.code).Status || !bytes.Contains(body, []byte(`"`+c.code+`"`)) {
			t.Errorf("%s %s %.40q: %d %s, want %s", c.method, c.rest, c.path, status, body, c.code)
		}
	}
	if got := b.exec(t, api.Exec{Cmd: "ls /evil /etc/evil /workspace/folder/* 2>/dev/null"}).Stdout; got != "" {
		t.Errorf("refused writes left %q", got)
	}
}

func noise(t *testing.T, n int) []byte {
	t.Helper()
	data := make([]byte, n)
	if _, err := io.ReadFull(rand.Reader, data); err != nil {
		t.Fatal(err)
	}
	return data
}

// together moves large files while one client sends nothing more and another
// takes nothing more.
func (b *box) together(t *testing.T) {
	data := noise(t, 12<<20)
	b.write(t, "shared", data)
	slow, feed := io.Pipe()
	sent := make(chan error, 1)
	go func() { sent <- b.WriteFile(t.Context(), b.id, "slow", slow) }()
	if _, err := feed.Write(data[:4<<20]); err != nil {
		t.Fatal(err)
	}
	unread, err := b.ReadFile(t.Context(), b.id, "shared")
	if err != nil {
		t.Fatal(err)
	}
	defer unread.Close()
	t.Run("others", func(t *testing.T) { // which returns when all four are over
		for n := range 4 {
			name, mine := fmt.Sprint("together-", n), data[n*5000:6<<20]
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b.write(t, name, mine)
				if got := b.read(t, name); !bytes.Equal(got, mine) {
					t.Errorf("it came back as %d other bytes", len(got))
				}
			})
		}
	})
	if _, err := feed.Write(data[4<<20:]); err != nil {
		t.Fatal(err)
	}
	_ = feed.Close() // never fails
	if err := <-sent; err != nil {
		t.Fatalf("the slow upload: %v", err)
	}
	if got := b.read(t, "slow"); !bytes.Equal(got, data) {
		t.Errorf("the slow upload came back as %d other bytes", len(got))
	}
	if got, err := io.ReadAll(unread); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the slow download: %d other bytes, %v", len(got), err)
	}
	b.exec(t, api.Exec{Cmd: "rm -f shared slow together-*"})
}

// brokenOff has clients vanish in the middle of large files.
func (b *box) brokenOff(t *testing.T) {
	data := noise(t, 8<<20)
	b.write(t, "kept", data)
	for range 3 {
		lost := errors.New("the client is gone")
		half, feed := io.Pipe()
		go func() {
			_, _ = feed.Write(data[1<<20 : 4<<20])
			_ = feed.CloseWithError(lost)
		}()
		if err := b.WriteFile(t.Context(), b.id, "kept", half); !errors.Is(err, lost) {
			t.Errorf("half an upload: got %v, want %v", err, lost)
		}
		body, err := b.ReadFile(t.Context(), b.id, "kept")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, body, 1<<20); err != nil {
			t.Error(err)
		}
		_ = body.Close() // half a download
		if got := b.read(t, "kept"); !bytes.Equal(got, data) {
			t.Fatalf("afterwards there are %d other bytes", len(got))
		}
	}
	harness.Await(t, 20*time.Second, "nothing to be left of the uploads", func() error {
		if left := b.exec(t, api.Exec{Cmd: "ls -A | grep '[.]tmp$'"}).Stdout; left != "" {
			return errors.New(left)
		}
		return nil
	})
	b.exec(t, api.Exec{Cmd: "rm kept"})
}
