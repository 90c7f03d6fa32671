package template

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pandastack/internal/kit/durable"
	"pandastack/internal/kit/flock"
)

// Image is a finished disk image with its kernel.
type Image struct {
	Dir      string
	Manifest ImageManifest
}

// Base is the image's root file system, raw ext4.
func (i *Image) Base() string { return filepath.Join(i.Dir, "base.ext4") }

// Kernel is the image's kernel, an ELF vmlinux.
func (i *Image) Kernel() string { return filepath.Join(i.Dir, "vmlinux") }

// Modules is the folder of the kernel's modules and their order.
func (i *Image) Modules() string { return filepath.Join(i.Dir, "modules") }

// EnsureImage returns the image of a recipe, building it unless it is there. A
// second caller, in whatever process, waits for the first and takes its result.
func (b *Builder) EnsureImage(ctx context.Context, src *Source, progress ProgressFunc) (*Image, error) {
	return b.ensureImage(ctx, src, newTracker(src.Recipe.Name, len(imageSteps), progress))
}

func (b *Builder) ensureImage(ctx context.Context, src *Source, t *tracker) (*Image, error) {
	if img, err := b.findImage(src); err == nil {
		return img, nil
	}
	l, err := b.lockImages(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Release()
	if img, err := b.findImage(src); err == nil {
		return img, nil
	}
	return b.buildImageLocked(ctx, src, t)
}

// rebuildImage resolves the recipe's packages afresh. Where they differ from
// the image there was, that is another image, and what changed is returned.
func (b *Builder) rebuildImage(ctx context.Context, src *Source, t *tracker) (*Image, []Change, error) {
	l, err := b.lockImages(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer l.Release()
	old, err := b.findImage(src)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	// Not what a killed build left: that was resolved some time ago.
	if err := os.RemoveAll(b.layout.build(src.RecipeKey())); err != nil {
		return nil, nil, err
	}
	img, err := b.buildImageLocked(ctx, src, t)
	if err != nil || old == nil {
		return img, nil, err
	}
	return img, Diff(&old.Manifest, &img.Manifest), nil
}

// lockImages lets one image be built at a time: builds share the caches.
func (b *Builder) lockImages(ctx context.Context) (*flock.Lock, error) {
	l, err := flock.Acquire(ctx, b.layout.lockFile("images"))
	if err != nil {
		return nil, fmt.Errorf("wait for another image to be built: %w", err)
	}
	return l, nil
}

func (b *Builder) buildImageLocked(ctx context.Context, src *Source, t *tracker) (*Image, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("building a template needs root: run it with sudo")
	}
	key := src.RecipeKey()
	run := &build{
		tracker: t, src: src, dir: b.layout.build(key), wheelDir: b.layout.wheels(),
		apt: newApt(b.layout.aptCache(), src.Recipe.Base.Debian, b.cfg.Mirror, b.cfg.SecurityMirror),
	}
	if err := run.all(ctx); err != nil {
		return nil, err
	}
	return b.publishImage(run, key)
}

// publishImage notes a finished build as the recipe's and moves it to its
// place, in this order: cut short between the two, the note leads nowhere, which
// counts as no image, and the next run, all steps stamped, only publishes.
func (b *Builder) publishImage(run *build, key string) (*Image, error) {
	m, err := readImageManifest(run.out(""))
	if err != nil {
		return nil, err
	}
	if err := durable.WriteFile(b.layout.byRecipe(key), []byte(m.Digest+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("publish image: %w", err)
	}
	dir := b.layout.image(m.Digest)
	// Where the packages resolved as before, keep the image that sandboxes use.
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := durable.Rename(run.out(""), dir); err != nil {
			return nil, fmt.Errorf("publish image: %w", err)
		}
	}
	if err := os.RemoveAll(run.dir); err != nil {
		return nil, fmt.Errorf("remove build folder: %w", err)
	}
	return b.openImage(m.Digest)
}

// findImage looks up the recipe's image. The error is fs.ErrNotExist without one.
func (b *Builder) findImage(src *Source) (*Image, error) {
	digest, err := os.ReadFile(b.layout.byRecipe(src.RecipeKey()))
	if err != nil {
		return nil, err
	}
	return b.openImage(strings.TrimSpace(string(digest)))
}

func (b *Builder) openImage(digest string) (*Image, error) {
	dir := b.layout.image(digest)
	m, err := readImageManifest(dir)
	if err != nil {
		return nil, err
	}
	img := &Image{Dir: dir, Manifest: *m}
	return img, readable(img.Kernel())
}

// readable makes sure that a confined VMM, whose user is another, can open what
// it is handed: earlier versions kept the kernel to its owner.
func readable(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o444 == 0o444 {
		return err
	}
	return os.Chmod(path, info.Mode().Perm()|0o444)
}

func readImageManifest(dir string) (*ImageManifest, error) {
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		return nil, err
	}
	m := new(ImageManifest)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("image manifest in %s: %w", dir, err)
	}
	return m, nil
}

// manifest writes down what the image is made of.
func (b *build) manifest(ctx context.Context) error {
	m := ImageManifest{
		Format: formatVersion, Name: b.src.Recipe.Name, Recipe: b.src.RecipeKey(),
		Created: time.Now().UTC().Truncate(time.Second), Steps: b.times,
	}
	kernel, err := os.ReadFile(filepath.Join(b.dir, "kernel.json"))
	if err == nil {
		err = json.Unmarshal(kernel, &m.Kernel)
	}
	if err != nil {
		return fmt.Errorf("read what kernel was taken: %w", err)
	}
	if m.Debian, err = b.apt.installed(ctx, b.rootfs()); err != nil {
		return err
	}
	if err := b.manifestPython(&m); err != nil {
		return err
	}
	if m.Sizes, err = b.sizes(); err != nil {
		return err
	}
	if m.SHA256, err = hashFile(b.out("base.ext4")); err != nil {
		return err
	}
	m.Digest = imageDigest(&m)
	return writeJSON(b.out("manifest.json"), m)
}

// manifestPython notes the Python packages, and keeps the lock beside the image
// for whoever wants to pin what a recipe's wishes resolved to.
func (b *build) manifestPython(m *ImageManifest) error {
	lock, err := b.lock()
	if err != nil || lock == nil {
		return err
	}
	m.Lock = hashBytes(lock)
	if m.Python, err = parseLock(lock); err != nil {
		return err
	}
	return os.WriteFile(b.out("requirements.lock"), lock, 0o600)
}

func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(path, append(text, '\n'), 0o600)
}
