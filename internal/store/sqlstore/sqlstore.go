// Package sqlstore keeps records in one SQLite file.
package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"pandastack/internal/kit/failpoint"
	"pandastack/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Store is a store.Store on a SQLite file.
type Store struct {
	db *sql.DB
}

var _ store.Store = (*Store)(nil)

// Open opens the file, makes it (mode 0600) if there is none, and brings its
// tables to this program's version. A file of a newer program is refused.
func Open(ctx context.Context, path string) (*Store, error) {
	if err := create(path); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	db, err := sql.Open("sqlite", source(path))
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	// One connection: SQLite has one writer anyway, and waiting for it in Go is
	// fair and ends with the caller's context.
	db.SetMaxOpenConns(1)
	if err := migrate(ctx, db); err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, errors.Join(err, db.Close()))
	}
	return &Store{db}, nil
}

// create makes the file if there is none, and makes that durable. SQLite would
// make it too, but with the umask's mode; -wal and -shm take over this one's.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(f.Sync(), dir.Sync(), dir.Close(), f.Close())
}

// source is the data source's name. synchronous(FULL) makes a commit in WAL
// mode wait for its fsync: what was acknowledged outlives a power cut.
func source(path string) string {
	options := url.Values{
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)"},
	}
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: options.Encode()}
	return u.String()
}

func migrate(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	have, known, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read version: %w", err)
	}
	if have > known {
		return fmt.Errorf("its version %d is newer than this program's %d", have, known)
	}
	return nil
}

// Sandboxes gives the sandboxes' records.
func (s *Store) Sandboxes() store.Sandboxes { return sandboxes{s.db} }

// Snapshots gives the snapshots' records.
func (s *Store) Snapshots() store.Snapshots { return snapshots{s.db} }

// Close closes the file.
func (s *Store) Close() error { return s.db.Close() }

// wrap names the operation and gives SQLite's codes the contract's meaning.
func wrap(operation, id string, err error) error {
	failpoint.Hit("after " + operation)
	if err == nil {
		return nil
	}
	var code *sqlite.Error
	if errors.As(err, &code) {
		switch code.Code() {
		case sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE:
			err = store.ErrExists
		case sqlite3.SQLITE_FULL:
			err = fmt.Errorf("%w: %w", syscall.ENOSPC, err)
		}
	}
	if errors.Is(err, sql.ErrNoRows) {
		err = store.ErrNotFound
	}
	return fmt.Errorf("%s %s: %w", operation, id, err)
}
