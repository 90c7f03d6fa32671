package template

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

// wheelTags is what the image's Python (3.13, glibc 2.41) can install. Every
// manylinux level has to be named: pip does not derive the older from the newer.
var wheelTags = []string{
	"--python-version=3.13", "--implementation=cp", "--abi=cp313", "--abi=abi3", "--abi=none",
	"--platform=manylinux_2_28_x86_64", "--platform=manylinux_2_27_x86_64", "--platform=manylinux_2_26_x86_64",
	"--platform=manylinux_2_24_x86_64", "--platform=manylinux_2_17_x86_64", "--platform=manylinux2014_x86_64",
	"--platform=manylinux_2_12_x86_64", "--platform=manylinux2010_x86_64", "--platform=manylinux_2_5_x86_64",
	"--platform=manylinux1_x86_64", "--platform=any",
}

// wheels downloads the lock's packages with the host's pip and its settings.
// Files that are in the cache with the right hash are not downloaded again.
func (b *build) wheels(ctx context.Context) error {
	if b.src.Lock == nil {
		return nil
	}
	lock := filepath.Join(b.dir, "requirements.lock")
	if err := os.WriteFile(lock, b.src.Lock, 0o600); err != nil {
		return err
	}
	list, err := parseLock(b.src.Lock)
	if err != nil {
		return err
	}
	argv := []string{
		"python3", "-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--progress-bar=off",
		"--no-deps", "--require-hashes", "--only-binary=:all:", "--no-cache-dir",
		"--find-links=" + b.wheelDir, "--dest=" + b.wheelDir, "--requirement=" + lock,
	}
	c := command{argv: append(argv, wheelTags...), dir: b.dir}
	var n int64
	c.onLine = func(line string) {
		if strings.HasPrefix(line, "Collecting ") || strings.HasPrefix(line, "Processing ") {
			n++
			b.report(n, int64(len(list)), "packages")
		}
	}
	return c.run(ctx, b.log)
}

// virtualenv installs the wheels in the image, without network.
func (b *build) virtualenv(ctx context.Context) error {
	if b.src.Lock == nil {
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
	var n int64
	total := int64(strings.Count(string(b.src.Lock), "=="))
	install.onLine = func(line string) {
		if strings.HasPrefix(line, "Processing ") {
			n++
			b.report(n, total, "packages")
		}
	}
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
	return os.WriteFile(filepath.Join(dir, "requirements.lock"), b.src.Lock, 0o644)
}

// caches does once what the first run in every sandbox would do: byte code, and
// matplotlib's list of fonts. The packages' files get one fixed time first, so
// that the same lock gives the same byte code.
func (b *build) caches(ctx context.Context) error {
	if b.src.Lock == nil {
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
