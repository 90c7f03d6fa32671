package template

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

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
	src, err := b.load(name)
	if err != nil {
		return nil, err
	}
	w, err := b.making(ctx, name, progress, func() (*Warm, error) {
		count := bakeStepCount
		if _, err := b.findImage(src); err != nil {
			count += len(imageSteps)
		}
		t := newTracker(name, count, progress)
		img, err := b.ensureImage(ctx, src, t)
		if err != nil {
			return nil, err
		}
		return b.ensureWarm(ctx, src, img, src.Recipe.variant(v), t)
	})
	if err == nil {
		b.remember(name, v, w)
	}
	return w, err
}

// Rebuild is Ensure with the recipe's Debian packages resolved afresh. It also
// returns how they differ from what there was.
func (b *Builder) Rebuild(ctx context.Context, name string, progress ProgressFunc) (*Warm, []Change, error) {
	src, err := b.load(name)
	if err != nil {
		return nil, nil, err
	}
	var changes []Change
	w, err := b.making(ctx, name, progress, func() (w *Warm, err error) {
		t := newTracker(name, len(imageSteps)+bakeStepCount, progress)
		var img *Image
		if img, changes, err = b.rebuildImage(ctx, src, t); err != nil {
			return nil, err
		}
		return b.ensureWarm(ctx, src, img, src.Recipe.variant(Variant{}), t)
	})
	return w, changes, err
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
	w, err := b.bakeWarm(ctx, src, img, initrd, m, t)
	if err != nil {
		return nil, err
	}
	return w, b.noteWarm(w)
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

// load reads a template's recipe.
func (b *Builder) load(name string) (*Source, error) {
	unknown := &panda.Error{Code: api.CodeTemplateNotFound, Message: fmt.Sprintf("no template is called %q", name)}
	if !namePattern.MatchString(name) {
		return nil, unknown
	}
	if _, err := fs.Stat(b.cfg.Recipes, name+"/"+recipeFile); err != nil {
		return nil, unknown
	}
	dir, err := fs.Sub(b.cfg.Recipes, name)
	if err != nil {
		return nil, err
	}
	src, err := Load(dir)
	if err == nil && src.Recipe.Name != name {
		err = fmt.Errorf("%s/%s: name is %q", name, recipeFile, src.Recipe.Name)
	}
	if err != nil {
		return nil, buildFailed(name, err)
	}
	return src, nil
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
