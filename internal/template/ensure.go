package template

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pandastack/api"
	"pandastack/internal/kit/flock"
	"pandastack/internal/panda"
)

// Ensure returns the template's warm snapshot in the size its recipe says. See
// EnsureVariant.
func (b *Builder) Ensure(ctx context.Context, name string, progress ProgressFunc) (*Warm, error) {
	return b.EnsureVariant(ctx, name, Variant{}, progress)
}

// EnsureVariant returns a template's warm snapshot of one size, building what is
// missing: image, initrd, snapshot. It is quick when nothing is. Callers may
// come at the same time, in several processes: one builds, the others wait. A
// failure is a *panda.Error whose cause, for a failed step, is a *StepError.
func (b *Builder) EnsureVariant(ctx context.Context, name string, v Variant, progress ProgressFunc) (*Warm, error) {
	if w := b.remembered(name, v); w != nil {
		return w, nil
	}
	if _, err := b.load(name); err != nil {
		return nil, err
	}
	w, err := b.making(ctx, name, progress, func() (*Warm, error) {
		src, err := b.load(name) // again: it may have been replaced meanwhile
		if err != nil {
			return nil, err
		}
		t := newTracker(name, b.stepCount(src)+bakeStepCount, progress)
		img, err := b.ensureImage(ctx, src, t)
		if err != nil {
			return nil, err
		}
		return b.ensureSizes(ctx, src, img, []Variant{v}, t)
	})
	if err == nil {
		b.remember(name, v, w)
	}
	return w, err
}

func (b *Builder) stepCount(src *Source) int {
	if _, err := b.findImage(src); err == nil {
		return 0
	}
	return len(imageSteps)
}

// BuildRequest says what Build is to make.
type BuildRequest struct {
	Name   string // a template, or
	Folder string // a folder with a recipe, whose template it makes or replaces
	// Refresh resolves all packages afresh, instead of taking the image there is.
	Refresh bool
}

// Built is what came of a Build.
type Built struct {
	Name    string
	Warm    *Warm    // in the recipe's size
	Changes []Change // of packages, from the image there was; by Refresh only
}

// Build makes a template with all sizes that its recipe names. A failed build of
// a folder leaves the template as it was.
func (b *Builder) Build(ctx context.Context, req BuildRequest, progress ProgressFunc) (built Built, err error) {
	src, err := b.requested(req)
	if err != nil {
		return built, err
	}
	built.Name = src.Recipe.Name
	built.Warm, err = b.making(ctx, built.Name, progress, func() (*Warm, error) {
		if src, err = b.requested(req); err != nil {
			return nil, err
		}
		if src.Kept != "" {
			if err := b.keep(src); err != nil {
				return nil, err
			}
		}
		sizes := append([]Variant{{}}, src.Recipe.Variants...)
		count := b.stepCount(src)
		if req.Refresh {
			count = len(imageSteps)
		}
		t := newTracker(built.Name, count+bakeStepCount*len(sizes), progress)
		var img *Image
		if req.Refresh {
			img, built.Changes, err = b.rebuildImage(ctx, src, t)
		} else {
			img, err = b.ensureImage(ctx, src, t)
		}
		if err != nil {
			return nil, err
		}
		return b.ensureSizes(ctx, src, img, sizes, t)
	})
	return built, err
}

func (b *Builder) requested(req BuildRequest) (*Source, error) {
	if req.Folder != "" {
		return b.loadFolder(req.Folder)
	}
	return b.load(req.Name)
}

// ensureSizes returns the snapshot of the first size. All become the template's
// at once, or none does.
func (b *Builder) ensureSizes(ctx context.Context, src *Source, img *Image, sizes []Variant, t *tracker) (*Warm, error) {
	all := make([]*Warm, len(sizes))
	for i, v := range sizes {
		var err error
		if all[i], err = b.ensureWarm(ctx, src, img, src.Recipe.variant(v), t); err != nil {
			return nil, err
		}
	}
	return all[0], b.noteWarm(src, all...)
}

// making does what makes a template: one at a time for each, and none while
// garbage is collected, since what is being made is in no record yet.
func (b *Builder) making(ctx context.Context, name string, progress ProgressFunc, do func() (*Warm, error)) (*Warm, error) {
	hold, err := flock.AcquireShared(ctx, b.layout.lockFile("gc"))
	if err != nil {
		return nil, fmt.Errorf("wait for garbage collection: %w", err)
	}
	defer hold.Release()
	path := b.layout.lockFile("template-" + name)
	mine, err := flock.Try(path)
	if errors.Is(err, flock.ErrHeld) {
		newTracker(name, 0, progress).note("waiting for another build of this template")
		mine, err = flock.Acquire(ctx, path)
	}
	if err != nil {
		return nil, fmt.Errorf("wait for another build of %s: %w", name, err)
	}
	defer mine.Release()
	w, err := do()
	if err != nil && ctx.Err() == nil {
		err = buildFailed(name, errors.Join(err, b.noteFailure(name, err)))
	}
	return w, err
}

// ensureWarm returns the image's snapshot of one size; the caller holds the
// template's lock.
func (b *Builder) ensureWarm(ctx context.Context, src *Source, img *Image, v Variant, t *tracker) (*Warm, error) {
	m, initrd, err := b.inputs(ctx, src, img, v)
	if err != nil {
		return nil, err
	}
	if w := b.current(ctx, m); w != nil {
		return w, nil
	}
	if err := b.roomFor(src, img, v); err != nil {
		return nil, err
	}
	return b.bakeWarm(ctx, src, img, initrd, m, t)
}

// roomFor refuses a size beyond those a template may have at one time.
func (b *Builder) roomFor(src *Source, img *Image, v Variant) error {
	rec, err := b.readRecord(src.Recipe.Name)
	if err != nil || rec.Image != img.Manifest.Digest || rec.Recipe != src.Kept {
		return nil // the first of a new image
	}
	if _, ok := rec.Warm[v.String()]; ok || len(rec.Warm) < maxVariants {
		return nil
	}
	return &panda.Error{
		Code:    api.CodeRequestInvalid,
		Message: fmt.Sprintf("template %s is baked in %d sizes already (%s)", src.Recipe.Name, maxVariants, strings.Join(slices.Sorted(maps.Keys(rec.Warm)), ", ")),
		Hint:    fmt.Sprintf("Ask for one of these sizes, or drop them all with 'pandastack template rm %s' and build it again.", src.Recipe.Name),
		Fields:  []api.FieldError{{Path: "memory_mb", Message: "a ninth size of this template"}},
	}
}

// remembered is what an earlier call in this process returned, while the record
// still says so: another process may have built another.
func (b *Builder) remembered(name string, v Variant) *Warm {
	b.mu.Lock()
	w := b.known[name+" "+v.String()]
	b.mu.Unlock()
	if w == nil {
		return nil
	}
	rec, err := b.readRecord(name)
	if err != nil || rec.Warm[w.Manifest.Variant.String()] != w.Key() {
		return nil
	}
	return w
}

func (b *Builder) remember(name string, v Variant, w *Warm) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known[name+" "+v.String()] = w
}

// forget drops what was remembered of a template in every size.
func (b *Builder) forget(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.known, func(key string, _ *Warm) bool { return strings.HasPrefix(key, name+" ") })
}

// inputs makes the initrd and says what a snapshot made now would be made of.
func (b *Builder) inputs(ctx context.Context, src *Source, img *Image, v Variant) (WarmManifest, string, error) {
	if b.cfg.Starter == nil || b.cfg.Compat == nil {
		return WarmManifest{}, "", errors.New("this builder starts no machines: Config.Starter and Config.Compat are not set")
	}
	initrd, key, err := b.Initrd(ctx, img)
	if err != nil {
		return WarmManifest{}, "", err
	}
	compat, err := b.cfg.Compat(ctx, v.CPU, v.MemoryMB)
	if err != nil {
		return WarmManifest{}, "", err
	}
	return WarmManifest{
		Name: src.Recipe.Name, Image: img.Manifest.Digest, Initrd: key, Variant: v, DiskMB: src.Recipe.DiskMB,
		Cmdline: b.cfg.Cmdline, Inputs: warmInputs(src, img, key, b.cfg.Cmdline, compat, v),
	}, initrd, nil
}

// current is the recorded snapshot if it is made of these inputs, whole, and
// loads on this host; otherwise nil.
func (b *Builder) current(ctx context.Context, m WarmManifest) *Warm {
	rec, err := b.readRecord(m.Name)
	if err != nil {
		return nil
	}
	w, err := b.openWarm(rec.Warm[m.Variant.String()])
	if err != nil || w.Manifest.Inputs != m.Inputs {
		return nil
	}
	if b.cfg.Fits != nil {
		if err := b.cfg.Fits(ctx, w.Manifest.Compat); err != nil {
			b.cfg.Log.InfoContext(ctx, "warm snapshot is baked again", "template", m.Name, "reason", err)
			return nil
		}
	}
	return w
}

// buildFailed keeps an error that already is one for callers.
func buildFailed(name string, err error) error {
	if e := (*panda.Error)(nil); errors.As(err, &e) {
		return err
	}
	message := fmt.Sprintf("template %s could not be built", name)
	if e := (*StepError)(nil); errors.As(err, &e) {
		message = fmt.Sprintf("template %s could not be built: step %s failed, see %s", name, e.Step, e.Log)
	}
	return &panda.Error{Code: api.CodeTemplateBuildFailed, Message: message, Cause: err}
}
