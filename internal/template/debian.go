package template

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// slim keeps out of the image, now and when a user installs packages later,
// what nobody reads in a sandbox. Licences stay.
var slim = []string{
	"path-exclude=/usr/share/man/*", "path-exclude=/usr/share/info/*", "path-exclude=/usr/share/lintian/*",
	"path-exclude=/usr/share/doc/*", "path-include=/usr/share/doc/*/copyright",
	"path-exclude=/usr/share/locale/*", "path-include=/usr/share/locale/locale.alias",
}

// packages is what the recipe needs installed.
func (b *build) packages() []string {
	list := b.src.Recipe.Packages
	if b.src.Recipe.Python != nil {
		list = append([]string{"python3", "python3-venv"}, list...)
	}
	return list
}

// fetch downloads every package to the cache.
func (b *build) fetch(ctx context.Context) error {
	if err := b.apt.prepare(ctx); err != nil {
		return err
	}
	if err := b.apt.update(ctx, b.log); err != nil {
		return err
	}
	return b.apt.download(ctx, b.log, b.packages(), func(p int64) { b.report(p, 100, "%") })
}

// debootstrap makes the root file system. mmdebstrap finds the packages in the
// cache (linked into its own archive folder) and what it still had to download
// is linked back.
func (b *build) debootstrap(ctx context.Context) error {
	if err := os.RemoveAll(b.rootfs()); err != nil {
		return err
	}
	cache := b.apt.archives()
	argv := []string{
		"mmdebstrap", "--mode=root", "--variant=apt", "--format=directory", "--architectures=amd64",
		"--skip=download/empty,essential/unlink,check/empty",
		"--aptopt=" + b.apt.hostConfigPath(),
		"--setup-hook=mkdir -p \"$1\"/var/cache/apt/archives && find '" + cache + "' -maxdepth 1 -name '*.deb' -exec cp -l -t \"$1\"/var/cache/apt/archives {} +",
		"--customize-hook=find \"$1\"/var/cache/apt/archives -maxdepth 1 -name '*.deb' -exec cp -l -n -t '" + cache + "' {} +",
	}
	// No fsync for each file: an image that was not published is never used.
	for _, opt := range append([]string{"force-unsafe-io"}, slim...) {
		argv = append(argv, "--dpkgopt="+opt)
	}
	if list := b.packages(); len(list) > 0 {
		argv = append(argv, "--include="+strings.Join(list, ","))
	}
	argv = append(argv, b.apt.suite, b.rootfs())
	argv = append(argv, b.apt.sources...)
	c := command{argv: argv, env: []string{"LC_ALL=C.UTF-8", "TMPDIR=" + b.dir}}
	c.onLine = func(line string) {
		if note, ok := strings.CutPrefix(line, "I: "); ok {
			b.note(note)
		}
	}
	return c.run(ctx, b.log)
}

// files puts the recipe's files and PandaStack's own settings in place and
// takes out what only the build needed.
func (b *build) files(ctx context.Context) error {
	root, err := os.OpenRoot(b.rootfs())
	if err != nil {
		return err
	}
	defer root.Close()
	r := b.src.Recipe
	for _, f := range r.Files {
		mode := fs.FileMode(f.Mode)
		if mode == 0 {
			mode = 0o644
		}
		if err := place(root, f.To, b.src.Files[f.From], mode); err != nil {
			return err
		}
	}
	own := map[string]string{
		"/etc/pandastack/env":   envFile(r),
		"/etc/apt/sources.list": defaultSources(r.Base.Debian),
		"/etc/hostname":         "sandbox\n",
		"/etc/hosts":            "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost\n",
		"/etc/resolv.conf":      "",
		"/etc/machine-id":       "",
	}
	for name, content := range own {
		if err := place(root, name, []byte(content), 0o644); err != nil {
			return err
		}
	}
	if err := root.MkdirAll("workspace", 0o755); err != nil {
		return err
	}
	return b.tidy()
}

// tidy removes the host's way to its mirror, what was set for the build alone,
// and the caches.
func (b *build) tidy() error {
	var errs []error
	for _, glob := range []string{
		"etc/apt/apt.conf.d/99mmdebstrap", "etc/dpkg/dpkg.cfg.d/99mmdebstrap", "var/cache/apt/archives/*.deb", "var/cache/apt/*.bin",
		"var/lib/apt/lists/*", "var/log/*", "var/cache/debconf/*-old", "var/lib/dpkg/*-old", "tmp/*",
	} {
		matches, err := filepath.Glob(filepath.Join(b.rootfs(), glob))
		errs = append(errs, err)
		for _, m := range matches {
			errs = append(errs, os.RemoveAll(m))
		}
	}
	return errors.Join(errs...)
}

// place writes one file inside root. A symlink in the way cannot lead outside.
func place(root *os.Root, name string, content []byte, mode fs.FileMode) error {
	rel := strings.TrimPrefix(name, "/")
	if err := root.MkdirAll(filepath.Dir(rel), 0o755); err != nil {
		return fmt.Errorf("place %s: %w", name, err)
	}
	if err := root.Remove(rel); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("place %s: %w", name, err)
	}
	f, err := root.OpenFile(rel, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode.Perm())
	if err != nil {
		return fmt.Errorf("place %s: %w", name, err)
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err != nil {
		return fmt.Errorf("place %s: %w", name, err)
	}
	return nil
}
