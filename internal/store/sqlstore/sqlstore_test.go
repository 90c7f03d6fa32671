package sqlstore

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pressly/goose/v3"

	"pandastack/internal/panda"
	"pandastack/internal/store"
	"pandastack/internal/store/storetest"
)

func TestSuite(t *testing.T) {
	paths := make(map[*testing.T]string)
	storetest.Run(t, func(t *testing.T) store.Store {
		if paths[t] == "" {
			// A name with what means something in a URL.
			paths[t] = filepath.Join(t.TempDir(), "100% #1?.db")
		}
		return open(t, paths[t])
	})
}

func TestFilesAreForTheOwnerOnly(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "a.db"))
	defer s.Close()
	if err := s.Sandboxes().Put(t.Context(), storetest.Sample("a")); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 2 {
		t.Fatalf("files: got %v, %v, want the database and its log", files, err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("%s: got mode %o, want 600", file, got)
		}
	}
}

func TestNewerFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	open(t, path).Close()
	db, err := sql.Open("sqlite", source(path))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)`); err != nil {
		t.Fatal(err)
	}
	db.Close()
	_, err = Open(t.Context(), path)
	if err == nil || !strings.Contains(err.Error(), "9999") {
		t.Errorf("Open: got %v, want a refusal that names version 9999", err)
	}
}

// TestOldFileIsBroughtUp opens a file as the first version wrote it.
func TestOldFileIsBroughtUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := sql.Open("sqlite", source(path))
	if err != nil {
		t.Fatal(err)
	}
	migrateTo(t, db, 1)
	_, err = db.Exec(`INSERT INTO sandboxes VALUES ('old', 'code-interpreter', 'k', 1, 1024, 'running', '', 1000000000, 60000000000,
		1, '{"a":"b"}', 'null', 'emulated-vm', 'tcg', '{"kind":"restored","total_ms":1,"steps":null}')`)
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	s := open(t, path)
	defer s.Close()
	sb, err := s.Sandboxes().Get(t.Context(), "old")
	if err != nil || !sb.TTLFrom.IsZero() || sb.ExpiresAt().Unix() != 61 || !sb.Persistent || sb.Metadata["a"] != "b" {
		t.Errorf("got %+v, %v", sb, err)
	}
}

func migrateTo(t *testing.T, db *sql.DB, version int64) {
	t.Helper()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
}

func TestFullDiskIsENOSPC(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "a.db"))
	defer s.Close()
	if _, err := s.db.Exec(`PRAGMA max_page_count = 1`); err != nil {
		t.Fatal(err)
	}
	sb := storetest.Sample("a")
	sb.Failure = strings.Repeat("x", 1<<20)
	if err := s.Sandboxes().Put(t.Context(), sb); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Put: got %v, want ENOSPC", err)
	}
}

// TestAcknowledgedSurvivesKill kills a writer in the middle of its work: all it
// had acknowledged must be there.
func TestAcknowledgedSurvivesKill(t *testing.T) {
	if path := os.Getenv("SQLSTORE_TEST_WRITE"); path != "" {
		writeUntilKilled(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "a.db")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAcknowledgedSurvivesKill$")
	child.Env = append(os.Environ(), "SQLSTORE_TEST_WRITE="+path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var acknowledged []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		acknowledged = append(acknowledged, lines.Text())
		if len(acknowledged) == 100 {
			_ = child.Process.Kill()
		}
	}
	_ = child.Wait()
	if len(acknowledged) < 100 {
		t.Fatalf("the writer ended after %d records", len(acknowledged))
	}
	s := open(t, path)
	defer s.Close()
	for _, id := range acknowledged {
		if sb, err := s.Sandboxes().Get(t.Context(), id); err != nil || sb.Status != panda.Running {
			t.Errorf("%s: got %q, %v, want running", id, sb.Status, err)
		}
	}
}

func writeUntilKilled(t *testing.T, path string) {
	s := open(t, path)
	for n := 0; ; n++ {
		sb := storetest.Sample(fmt.Sprint(n))
		if err := s.Sandboxes().Put(t.Context(), sb); err != nil {
			t.Fatal(err)
		}
		sb.Status = panda.Running
		if err := s.Sandboxes().Update(t.Context(), sb, panda.Creating); err != nil {
			t.Fatal(err)
		}
		fmt.Println(sb.ID)
	}
}

func BenchmarkUpdate(b *testing.B) {
	s, err := Open(context.Background(), filepath.Join(b.TempDir(), "a.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	sb := storetest.Sample("a")
	if err := s.Sandboxes().Put(context.Background(), sb); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := s.Sandboxes().Update(context.Background(), sb, sb.Status); err != nil {
			b.Fatal(err)
		}
	}
}

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return s
}
