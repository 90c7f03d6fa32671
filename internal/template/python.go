package template

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// wheels downloads what the cache lacks of the lock. The cache only ever holds
// whole files.
func (b *build) wheels(ctx context.Context) error {
	text, err := b.lock()
	if err != nil || text == nil {
		return err
	}
	missing, err := missingWheels(text, b.wheelDir)
	if err != nil || len(missing) == 0 {
		return err
	}
	dest, lock := filepath.Join(b.dir, "wheels"), filepath.Join(b.dir, "missing.lock")
	if err := errors.Join(os.RemoveAll(dest), os.WriteFile(lock, formatLock(missing), 0o600)); err != nil {
		return err
	}
	c, err := b.pip("download", "--no-deps", "--require-hashes", "--only-binary=:all:", "--no-cache-dir", "--progress-bar=off",
		"--dest="+dest, "--requirement="+lock)
	if err != nil {
		return err
	}
	c.onLine = b.countLines(len(missing), "Collecting ")
	if err := c.run(ctx, b.log); err != nil {
		return fmt.Errorf("%d of the lock's wheels are not in the cache and could not be downloaded: %w", len(missing), err)
	}
	return moveFiles(dest, b.wheelDir)
}

// missingWheels lists the packages of which dir has no file with a digest that
// the lock allows.
func missingWheels(lock []byte, dir string) ([]PythonPackage, error) {
	list, err := parseLock(lock)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	for _, f := range files {
		sum, err := hashFile(f)
		if err != nil {
			return nil, err
		}
		have["sha256:"+sum] = true
	}
	return slices.DeleteFunc(list, func(p PythonPackage) bool {
		return slices.ContainsFunc(p.Hashes, func(h string) bool { return have[h] })
	}), nil
}

func moveFiles(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Rename(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// countLines reports one package done for each line with the prefix.
func (b *build) countLines(total int, prefix string) func(string) {
	var n int64
	return func(line string) {
		if strings.HasPrefix(line, prefix) {
			n++
			b.report(n, int64(total), "packages")
		}
	}
}

// virtualenv installs the wheels in the image, without network.
func (b *build) virtualenv(ctx context.Context) error {
	if b.src.Recipe.Python == nil {
		return nil
	}
	target := filepath.Join(b.rootfs(), venv)
	inside := filepath.Join(b.rootfs(), "mnt/wheels")
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	if err := b.inRoot("/usr/bin/python3", "-m", "venv", venv).run(ctx, b.log); err != nil {
		return err
	}
	defer os.RemoveAll(inside)
	if err := b.linkWheels(inside); err != nil {
		return err
	}
	install := b.inRoot(venv+"/bin/python", "-m", "pip", "--isolated", "install", "--no-input", "--no-cache-dir",
		"--disable-pip-version-check", "--root-user-action=ignore", "--no-compile", "--progress-bar=off",
		"--no-index", "--find-links=/mnt/wheels", "--require-hashes", "--no-deps", "--requirement=/mnt/wheels/requirements.lock")
	lock, err := b.lock()
	if err != nil {
		return err
	}
	install.onLine = b.countLines(strings.Count(string(lock), "=="), "Processing ")
	return install.run(ctx, b.log)
}

// linkWheels shows the cached wheels inside the root file system.
func (b *build) linkWheels(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	wheels, err := filepath.Glob(filepath.Join(b.wheelDir, "*.whl"))
	if err != nil {
		return err
	}
	for _, w := range wheels {
		if err := os.Link(w, filepath.Join(dir, filepath.Base(w))); err != nil {
			return err
		}
	}
	lock, err := b.lock()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "requirements.lock"), lock, 0o644)
}

// caches does once what the first run in every sandbox would do: byte code, and
// matplotlib's list of fonts. The packages' files get one fixed time first, so
// that the same lock gives the same byte code.
func (b *build) caches(ctx context.Context) error {
	if b.src.Recipe.Python == nil {
		return nil
	}
	target := filepath.Join(b.rootfs(), venv)
	if err := setTimes(target, buildEpoch); err != nil {
		return err
	}
	// By time stamp, not by hash: an edit of an installed file must be seen.
	compile := b.inRoot(venv+"/bin/python", "-m", "compileall", "-q", "-f", "-j", "0", "--invalidation-mode=timestamp",
		"-x", "/tests?/", venv+"/lib") // nobody imports the packages' own tests
	// Files that are no valid Python (test data, templates) are not an error.
	if err := ignoreExit(compile.run(ctx, b.log), 1); err != nil {
		return err
	}
	fonts := b.inRoot(venv+"/bin/python", "-c", "import importlib.util as u\nif u.find_spec('matplotlib'): import matplotlib.font_manager")
	if err := fonts.run(ctx, b.log); err != nil {
		return err
	}
	return setTimes(target, buildEpoch)
}

// inRoot is a command in the image being made, without network.
func (b *build) inRoot(argv ...string) command {
	return command{argv: argv, root: b.rootfs(), offline: true, env: []string{"PYTHONDONTWRITEBYTECODE=", "MPLBACKEND=agg"}}
}
