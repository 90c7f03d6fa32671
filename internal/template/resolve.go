package template

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// resolve turns the recipe's wishes for Python packages into a lock: versions and
// the digests of the very files. A recipe with a lock has nothing to resolve.
func (b *build) resolve(ctx context.Context) error {
	wanted := b.src.wanted()
	if wanted == nil {
		return nil
	}
	list, report := filepath.Join(b.dir, "wanted.txt"), filepath.Join(b.dir, "report.json")
	if err := os.WriteFile(list, []byte(strings.Join(wanted, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	c, err := b.pip("install", "--dry-run", "--ignore-installed", "--only-binary=:all:", "--progress-bar=off",
		"--report="+report, "--requirement="+list)
	if err != nil {
		return err
	}
	if err := c.run(ctx, b.log); err != nil {
		return fmt.Errorf("resolve the Python packages: %w", err)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		return err
	}
	lock, err := readReport(text)
	if err != nil {
		return fmt.Errorf("pip's report: %w", err)
	}
	return os.WriteFile(b.resolved(), formatLock(lock), 0o600)
}

// resolved is the lock that resolve makes.
func (b *build) resolved() string { return filepath.Join(b.dir, "resolved.lock") }

// lock is the recipe's, or what its wishes resolved to; nil without Python.
func (b *build) lock() ([]byte, error) {
	if b.src.Recipe.Python == nil || b.src.Lock != nil {
		return b.src.Lock, nil
	}
	return os.ReadFile(b.resolved())
}

// readReport reads what pip would install (pip's installation report, version 1).
func readReport(text []byte) ([]PythonPackage, error) {
	var report struct {
		Install []struct {
			Metadata struct {
				Name    string `json:"name"`
				Version string `json:"version"`
			} `json:"metadata"`
			Download struct {
				Archive struct {
					Hashes map[string]string `json:"hashes"`
				} `json:"archive_info"`
			} `json:"download_info"`
		} `json:"install"`
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return nil, err
	}
	if len(report.Install) == 0 {
		return nil, errors.New("names no package")
	}
	var list []PythonPackage
	for _, p := range report.Install {
		sum := p.Download.Archive.Hashes["sha256"]
		if p.Metadata.Name == "" || p.Metadata.Version == "" || sum == "" {
			return nil, fmt.Errorf("%s %s comes without a SHA-256", p.Metadata.Name, p.Metadata.Version)
		}
		list = append(list, PythonPackage{Name: p.Metadata.Name, Version: p.Metadata.Version, Hashes: []string{"sha256:" + sum}})
	}
	return list, nil
}

// pip runs the image's own pip on this host, through the image's program loader.
// So it chooses for the image's Python and C library, and reaches indexes the way
// this host is set up to (its pip settings, certificates, proxy, resolver).
func (b *build) pip(argv ...string) (command, error) {
	usr := filepath.Join(b.rootfs(), "usr")
	found, err := filepath.Glob(filepath.Join(usr, "share/python-wheels/pip-*.whl"))
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%d files pip-*.whl", len(found))
	}
	if err != nil {
		return command{}, fmt.Errorf("find the image's pip: %w", err)
	}
	python := filepath.Join(usr, "bin/python3")
	run := []string{
		filepath.Join(usr, "lib64/ld-linux-x86-64.so.2"), "--library-path", filepath.Join(usr, "lib/x86_64-linux-gnu"),
		"--argv0", python, python, filepath.Join(found[0], "pip"), argv[0], "--disable-pip-version-check", "--no-input",
	}
	return command{
		argv: append(run, argv[1:]...), dir: b.dir,
		env: []string{"PYTHONHOME=" + usr, "PYTHONDONTWRITEBYTECODE=1", "PYTHONNOUSERSITE=1", "PYTHONPATH="},
	}, nil
}
