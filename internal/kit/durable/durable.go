// Package durable makes files survive a power cut: content first, then name,
// then the folder that holds the name.
package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"pandastack/internal/kit/failpoint"
)

// WriteFile replaces path as a whole. After a crash it has the old content or
// the new, never a mixture; when WriteFile returned, the new.
func WriteFile(path string, data []byte, mode os.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	failpoint.Hit("fsync")
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	failpoint.Hit("rename")
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// Rename moves a finished folder whose content it first makes durable.
func Rename(from, to string) error {
	if err := SyncTree(from); err != nil {
		return err
	}
	failpoint.Hit("rename")
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return errors.Join(SyncDir(filepath.Dir(to)), SyncDir(filepath.Dir(from)))
}

// SyncTree fsyncs every file and folder below root.
func SyncTree(root string) error {
	return filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() && !d.Type().IsRegular() {
			return err
		}
		return SyncDir(p)
	})
}

// SyncDir fsyncs one folder (or file).
func SyncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	failpoint.Hit("fsync")
	return errors.Join(f.Sync(), f.Close())
}
