package template

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"pandastack/api"
	"pandastack/internal/kit/flock"
	"pandastack/internal/panda"
)

// Remove drops a template: its builds and, of a user's own, the recipe. One that
// ships stays in the list, not built. Sandboxes go on; what nobody needs any
// more is freed by the next GC.
func (b *Builder) Remove(ctx context.Context, name string) error {
	src, err := b.load(name)
	if panda.CodeOf(err) == api.CodeTemplateNotFound {
		return err // a recipe that cannot be read can be removed
	}
	lock, err := flock.Try(b.layout.lockFile("template-" + name))
	if errors.Is(err, flock.ErrHeld) {
		return &panda.Error{Code: api.CodeTemplateBuilding, Message: fmt.Sprintf("template %s is being built", name)}
	}
	if err != nil {
		return err
	}
	defer lock.Release()
	if src != nil {
		if err := b.dropIndex(src); err != nil {
			return fmt.Errorf("remove template %s: %w", name, err)
		}
	}
	b.forget(name)
	if err := os.Remove(b.layout.record(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove template %s: %w", name, err)
	}
	b.cfg.Log.InfoContext(ctx, "template removed", "template", name)
	return nil
}

// dropIndex lets the recipe lead to no image, unless another template's is the
// same but for its name.
func (b *Builder) dropIndex(src *Source) error {
	others, err := b.sources()
	if err != nil {
		return err
	}
	key := src.RecipeKey()
	for _, other := range others {
		if other.Recipe.Name != src.Recipe.Name && other.RecipeKey() == key {
			return nil
		}
	}
	err = os.Remove(b.layout.byRecipe(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
