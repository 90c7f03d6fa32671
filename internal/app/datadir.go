package app

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"pandastack/api"
	"pandastack/internal/kit/durable"
	"pandastack/internal/kit/flock"
	"pandastack/internal/panda"
)

// dataDir is a node's folder. Packages of other layers keep folders of their
// own in it.
type dataDir string

func (d dataDir) path(elem ...string) string {
	return filepath.Join(append([]string{string(d)}, elem...)...)
}

func (d dataDir) lockFile() string   { return d.path("lock") }
func (d dataDir) keyFile() string    { return d.path("key") }
func (d dataDir) serverFile() string { return d.path("server.json") }
func (d dataDir) store() string      { return d.path("pandastack.db") }
func (d dataDir) runs() string       { return d.path("runs") }
func (d dataDir) saves() string      { return d.path("saves") }
func (d dataDir) logs() string       { return d.path("logs") }
func (d dataDir) tmp() string        { return d.path("tmp") }
func (d dataDir) jail() string       { return d.path("jail") }

// prepare makes the folder and proves that it can be written.
func (d dataDir) prepare() error {
	err := os.MkdirAll(string(d), 0o700)
	if err == nil {
		err = os.Chmod(string(d), 0o700)
	}
	var probe *os.File
	if err == nil {
		probe, err = os.CreateTemp(string(d), ".write-*")
	}
	if err == nil {
		err = errors.Join(probe.Close(), os.Remove(probe.Name()))
	}
	if err != nil {
		return &panda.Error{
			Code:    api.CodeHostDataDirUnusable,
			Message: fmt.Sprintf("the data directory %s cannot be used: %v", d, reason(err)),
		}
	}
	return nil
}

// reason is a path error's cause without the path, which its caller has named.
func reason(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// lock makes this process the only server of the folder until release, or
// until it ends in whatever way.
func (d dataDir) lock() (release func() error, err error) {
	l, err := flock.Try(d.lockFile())
	if errors.Is(err, flock.ErrHeld) {
		return nil, &panda.Error{
			Code:    api.CodeHostDataDirLocked,
			Message: fmt.Sprintf("the data directory %s is in use by another server (process %s)", d, d.holder()),
		}
	}
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	// The number is for people; the lock itself is the kernel's.
	if err := os.WriteFile(d.lockFile(), fmt.Appendln(nil, os.Getpid()), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the data directory: %w", err), l.Release())
	}
	return l.Release, nil
}

func (d dataDir) holder() string {
	text, err := os.ReadFile(d.lockFile())
	if pid := strings.TrimSpace(string(text)); err == nil && pid != "" {
		return pid
	}
	return "unknown"
}

// keyPrefix marks PandaStack's keys, for people and for secret scanners.
const keyPrefix = "pds_"

// keys gives the API keys: one a line, blank lines and lines with # aside. The
// first start makes one.
func (d dataDir) keys() ([]string, error) {
	text, err := os.ReadFile(d.keyFile())
	if errors.Is(err, fs.ErrNotExist) {
		key := keyPrefix + strings.ToLower(rand.Text()+rand.Text()[:6])
		return []string{key}, durable.WriteFile(d.keyFile(), []byte(key+"\n"), 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("read API keys: %w", err)
	}
	var keys []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			keys = append(keys, line)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s has no key in it; remove it and the next start makes one", d.keyFile())
	}
	return keys, nil
}

// announcement is server.json, by which clients of this machine find the server.
type announcement struct {
	URL     string `json:"url"`
	PID     int    `json:"pid"`
	KeyFile string `json:"key_file"`
}

func (d dataDir) announce(url string) error {
	text, err := json.Marshal(announcement{URL: url, PID: os.Getpid(), KeyFile: d.keyFile()})
	if err != nil {
		return err
	}
	if err := durable.WriteFile(d.serverFile(), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("announce the server: %w", err)
	}
	return nil
}

// withdraw undoes announce. It is fine twice.
func (d dataDir) withdraw() error {
	if err := os.Remove(d.serverFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("withdraw the server's announcement: %w", err)
	}
	return nil
}
