package sandbox

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sort"
)

const (
	keptLogs     = 20      // failed starts whose logs are kept
	keptLogBytes = 1 << 20 // of each file: the end
)

// keepLogs copies the logs of a run folder to where they outlive it and gives
// their folder, or "" where none are kept.
func (s *Service) keepLogs(l *live) (string, error) {
	if s.cfg.LogsDir == "" {
		return "", nil
	}
	logs, err := filepath.Glob(filepath.Join(l.dir, "*.log"))
	if err != nil || len(logs) == 0 {
		return "", err
	}
	to := filepath.Join(s.cfg.LogsDir, l.id)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return "", err
	}
	var errs []error
	for _, log := range logs {
		errs = append(errs, copyTail(log, filepath.Join(to, filepath.Base(log))))
	}
	errs = append(errs, pruneLogs(s.cfg.LogsDir))
	return to, errors.Join(errs...)
}

func copyTail(from, to string) (err error) {
	info, err := os.Lstat(from)
	if err != nil || !info.Mode().IsRegular() {
		return err // only what the shim wrote, nothing that a link points to
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err := in.Seek(max(info.Size()-keptLogBytes, 0), io.SeekStart); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, io.LimitReader(in, keptLogBytes))
	return err
}

// pruneLogs leaves the newest.
func pruneLogs(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	age := func(e os.DirEntry) int64 {
		info, err := e.Info()
		if err != nil {
			return 0 // another call is removing it
		}
		return info.ModTime().UnixNano()
	}
	sort.Slice(entries, func(i, j int) bool { return age(entries[i]) > age(entries[j]) })
	var errs []error
	for _, e := range entries[min(keptLogs, len(entries)):] {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return errors.Join(errs...)
}
