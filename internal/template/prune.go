package template

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Prune removes from the caches the .debs and wheels that no image was made of
// and returns them. While a build runs it does nothing and says ErrBusy. Call GC
// first: what counts is the images that exist.
func (b *Builder) Prune(context.Context) (removed Removed, err error) {
	l, err := b.collecting()
	if err != nil {
		return removed, err
	}
	defer l.Release()
	used, err := b.ingredients()
	if err != nil {
		return removed, fmt.Errorf("prune the caches: %w", err)
	}
	var errs []error
	for _, pattern := range []string{b.layout.aptCache() + "/*/archives/*.deb", b.layout.wheels() + "/*.whl"} {
		files, err := filepath.Glob(pattern)
		errs = append(errs, err)
		for _, path := range files {
			sum, err := hashFile(path)
			if err == nil && !used[sum] {
				err = removed.drop(path)
			}
			errs = append(errs, err)
		}
	}
	return removed, errors.Join(errs...)
}

// ingredients are the SHA-256 of all packages that images are made of.
func (b *Builder) ingredients() (map[string]bool, error) {
	dirs, err := filepath.Glob(b.layout.image("*"))
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, dir := range dirs {
		if filepath.Base(dir) == "by-recipe" {
			continue
		}
		m, err := readImageManifest(dir)
		if err != nil {
			return nil, err
		}
		for _, p := range append(slices.Clone(m.Debian), m.Kernel) {
			used[p.SHA256] = true
		}
		for _, p := range m.Python {
			for _, h := range p.Hashes {
				used[strings.TrimPrefix(h, "sha256:")] = true
			}
		}
	}
	return used, nil
}
