package template

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"pandastack/internal/kit/flock"
)

// Removed is what was freed.
type Removed struct {
	Paths []string
	Bytes int64 // on disk
}

// drop removes a file or folder and reckons it.
func (r *Removed) drop(path string) error {
	size, err := diskUse(path)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	r.Paths, r.Bytes = append(r.Paths, path), r.Bytes+size
	return nil
}

// diskUse is what a file, or all below a folder, takes on disk.
func diskUse(path string) (total int64, err error) {
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			total += st.Blocks * 512
		}
		return nil
	})
	return total, err
}

// ErrBusy says that a build is running, so that nothing was collected.
var ErrBusy = errors.New("a template is being built")

// GC removes the images, initrds and snapshots that no template uses and none
// of inUse (keys of the snapshots that sandboxes were started from), and what
// killed builds left behind. It returns what it removed. While a build runs it
// does nothing and says ErrBusy.
func (b *Builder) GC(ctx context.Context, inUse []string) (removed Removed, err error) {
	l, err := b.collecting()
	if err != nil {
		return removed, err
	}
	defer l.Release()
	keep, err := b.referenced(inUse)
	if err != nil {
		return removed, fmt.Errorf("collect garbage: %w", err)
	}
	var errs []error
	drop := func(path string) { errs = append(errs, removed.drop(path)) }
	errs = append(errs, b.sweep("warm", keep, drop), b.sweep("images", keep, drop), b.sweep("boot", keep, drop), b.sweep("recipes", keep, drop),
		b.sweepIndex(keep, drop), b.sweepBuilds(ctx, drop))
	return removed, errors.Join(errs...)
}

// collecting keeps builds away, or says ErrBusy.
func (b *Builder) collecting() (*flock.Lock, error) {
	l, err := flock.Try(b.layout.lockFile("gc"))
	if errors.Is(err, flock.ErrHeld) {
		return nil, ErrBusy
	}
	return l, err
}

// referenced collects the names of all folders that are needed.
func (b *Builder) referenced(inUse []string) (map[string]bool, error) {
	keep := map[string]bool{"by-recipe": true}
	warm := slices.Clone(inUse)
	records, err := b.recorded()
	if err != nil {
		return nil, err
	}
	for _, name := range records {
		rec, err := b.readRecord(name)
		if err != nil {
			return nil, err
		}
		keep[rec.Image], keep[rec.Recipe] = true, true
		for _, key := range rec.Warm {
			warm = append(warm, key)
		}
	}
	for _, key := range warm {
		m, err := readWarmManifest(b.layout.warm(key))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		keep[key], keep[m.Image], keep[m.Initrd] = true, true, true
	}
	return keep, b.keepCurrentImages(keep)
}

// sources reads all recipes but the bad ones.
func (b *Builder) sources() ([]*Source, error) {
	names, err := b.names()
	var all []*Source
	for _, name := range names {
		if src, err := b.load(name); err == nil {
			all = append(all, src)
		}
	}
	return all, err
}

// keepCurrentImages keeps what a template's recipe leads to, even while it
// has no snapshot: it took minutes to build.
func (b *Builder) keepCurrentImages(keep map[string]bool) error {
	sources, err := b.sources()
	for _, src := range sources {
		if img, err := b.findImage(src); err == nil {
			keep[img.Manifest.Digest] = true
		}
	}
	return err
}

func (b *Builder) sweep(kind string, keep map[string]bool, drop func(string)) error {
	entries, err := os.ReadDir(b.layout.path(kind))
	for _, e := range entries {
		if !keep[e.Name()] {
			drop(b.layout.path(kind, e.Name()))
		}
	}
	return err
}

// sweepIndex removes the notes that lead to images which are gone.
func (b *Builder) sweepIndex(keep map[string]bool, drop func(string)) error {
	entries, err := os.ReadDir(b.layout.byRecipe(""))
	for _, e := range entries {
		digest, err := os.ReadFile(b.layout.byRecipe(e.Name()))
		if err == nil && !keep[strings.TrimSpace(string(digest))] {
			drop(b.layout.byRecipe(e.Name()))
		}
	}
	return err
}

// sweepBuilds removes what killed builds left, except the build of a recipe that
// is still ours: its next build goes on from there.
func (b *Builder) sweepBuilds(ctx context.Context, drop func(string)) error {
	entries, err := os.ReadDir(b.layout.path("tmp"))
	if err != nil {
		return err
	}
	sources, err := b.sources()
	if err != nil {
		return err
	}
	resumable := map[string]bool{}
	for _, src := range sources {
		resumable[b.layout.build(src.RecipeKey())] = true
	}
	var errs []error
	for _, e := range entries {
		path := b.layout.path("tmp", e.Name())
		kind, _, _ := strings.Cut(e.Name(), "-")
		switch {
		case kind == "warm":
			errs = append(errs, b.dropBake(ctx, path))
		case kind == "recipe", kind == "build" && !resumable[path]:
			drop(path)
		}
	}
	return errors.Join(errs...)
}
