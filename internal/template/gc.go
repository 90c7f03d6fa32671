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

	"pandastack/internal/kit/flock"
)

// ErrBusy says that a build is running, so that nothing was collected.
var ErrBusy = errors.New("a template is being built")

// GC removes the images, initrds and snapshots that no template uses and none
// of inUse (keys of the snapshots that sandboxes were started from), and what
// killed builds left behind. It returns what it removed. While a build runs it
// does nothing and says ErrBusy.
func (b *Builder) GC(ctx context.Context, inUse []string) ([]string, error) {
	l, err := flock.Try(b.layout.lockFile("gc"))
	if errors.Is(err, flock.ErrHeld) {
		return nil, ErrBusy
	}
	if err != nil {
		return nil, err
	}
	defer l.Release()
	keep, err := b.referenced(inUse)
	if err != nil {
		return nil, fmt.Errorf("collect garbage: %w", err)
	}
	var removed []string
	var errs []error
	drop := func(path string) {
		removed = append(removed, path)
		errs = append(errs, os.RemoveAll(path))
	}
	errs = append(errs, b.sweep("warm", keep, drop), b.sweep("images", keep, drop), b.sweep("boot", keep, drop),
		b.sweepIndex(keep, drop), b.sweepBuilds(ctx, drop))
	return removed, errors.Join(errs...)
}

// referenced collects the names of all folders that are needed.
func (b *Builder) referenced(inUse []string) (map[string]bool, error) {
	keep := map[string]bool{"by-recipe": true}
	warm := slices.Clone(inUse)
	records, err := filepath.Glob(b.layout.record("*"))
	if err != nil {
		return nil, err
	}
	for _, path := range records {
		rec, err := b.readRecord(strings.TrimSuffix(filepath.Base(path), ".json"))
		if err != nil {
			return nil, err
		}
		keep[rec.Image] = true
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

// keepCurrentImages keeps what a recipe of this program leads to, even while it
// has no snapshot: it took minutes to build.
func (b *Builder) keepCurrentImages(keep map[string]bool) error {
	entries, err := fs.ReadDir(b.cfg.Recipes, ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		src, err := b.load(e.Name())
		if err != nil {
			continue
		}
		if img, err := b.findImage(src); err == nil {
			keep[img.Manifest.Digest] = true
		}
	}
	return nil
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
	resumable := b.resumable()
	var errs []error
	for _, e := range entries {
		path := b.layout.path("tmp", e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "warm-"):
			errs = append(errs, b.dropBake(ctx, path))
		case strings.HasPrefix(e.Name(), "build-") && !resumable[path]:
			drop(path)
		}
	}
	return errors.Join(errs...)
}

func (b *Builder) resumable() map[string]bool {
	paths := map[string]bool{}
	entries, err := fs.ReadDir(b.cfg.Recipes, ".")
	if err != nil {
		return paths
	}
	for _, e := range entries {
		if src, err := b.load(e.Name()); err == nil {
			paths[b.layout.build(src.RecipeKey())] = true
		}
	}
	return paths
}
