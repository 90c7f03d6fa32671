package template

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pandastack/api"
	"pandastack/internal/kit/durable"
	"pandastack/internal/panda"
)

// shipped says whether a recipe of this name comes with the program.
func (b *Builder) shipped(name string) bool {
	_, err := fs.Stat(b.cfg.Recipes, name+"/"+recipeFile)
	return err == nil
}

// names lists all templates: those that ship, and users' own.
func (b *Builder) names() ([]string, error) {
	entries, err := fs.ReadDir(b.cfg.Recipes, ".")
	if err != nil {
		return nil, fmt.Errorf("list templates: %w", err)
	}
	var all []string
	for _, e := range entries {
		if b.shipped(e.Name()) {
			all = append(all, e.Name())
		}
	}
	records, err := b.recorded()
	for _, name := range records {
		if rec, err := b.readRecord(name); err == nil && rec.Recipe != "" && !b.shipped(name) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all, err
}

// recorded lists the names of all records.
func (b *Builder) recorded() ([]string, error) {
	paths, err := filepath.Glob(b.layout.record("*"))
	for i, path := range paths {
		paths[i] = strings.TrimSuffix(filepath.Base(path), ".json")
	}
	return paths, err
}

// load reads a template's recipe.
func (b *Builder) load(name string) (*Source, error) {
	unknown := &panda.Error{Code: api.CodeTemplateNotFound, Message: fmt.Sprintf("no template is called %.80q", name)}
	if !namePattern.MatchString(name) {
		return nil, unknown
	}
	if b.shipped(name) {
		dir, err := fs.Sub(b.cfg.Recipes, name)
		if err != nil {
			return nil, err
		}
		return loadNamed(dir, name)
	}
	rec, err := b.readRecord(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if rec.Recipe == "" {
		return nil, unknown
	}
	src, err := loadNamed(os.DirFS(b.layout.recipe(rec.Recipe)), name)
	if err == nil {
		src.Kept = rec.Recipe
	}
	return src, err
}

func loadNamed(dir fs.FS, name string) (*Source, error) {
	src, err := Load(dir)
	if err == nil && src.Recipe.Name != name {
		err = fmt.Errorf("%s/%s: name is %q", name, recipeFile, src.Recipe.Name)
	}
	if err != nil {
		return nil, buildFailed(name, err)
	}
	return src, nil
}

// loadFolder reads a user's recipe. Nothing outside of its folder is read.
func (b *Builder) loadFolder(dir string) (*Source, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, buildFailed(dir, err)
	}
	defer root.Close()
	src, err := Load(root.FS())
	if err == nil && b.shipped(src.Recipe.Name) {
		err = fmt.Errorf("%s: name is %q, which is a template that ships with PandaStack; choose another", recipeFile, src.Recipe.Name)
	}
	if err != nil {
		return nil, buildFailed(dir, err)
	}
	src.Kept = src.folderKey()
	return src, nil
}

// keep copies a user's recipe to the data directory, so that the template can be
// built again, in other sizes too, without the folder it came from.
func (b *Builder) keep(src *Source) (err error) {
	dir := b.layout.recipe(src.Kept)
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	tmp := b.layout.path("tmp", "recipe-"+short(src.Kept))
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	modes := map[string]fs.FileMode{}
	for _, f := range src.Recipe.Files {
		modes[f.From] = fs.FileMode(f.Mode) & 0o111
	}
	for name, content := range src.contents() {
		path := filepath.Join(tmp, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o600|modes[name]); err != nil {
			return err
		}
	}
	if err := durable.Rename(tmp, dir); err != nil {
		return fmt.Errorf("keep the recipe: %w", err)
	}
	return nil
}
