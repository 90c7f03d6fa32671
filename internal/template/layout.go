package template

import (
	"fmt"
	"os"
	"path/filepath"
)

// layout names the places under the data directory.
type layout string

func (l layout) path(elem ...string) string {
	return filepath.Join(append([]string{string(l)}, elem...)...)
}

func (l layout) image(digest string) string  { return l.path("images", digest) }
func (l layout) byRecipe(key string) string  { return l.path("images", "by-recipe", key) }
func (l layout) boot(key string) string      { return l.path("boot", key) }
func (l layout) warm(key string) string      { return l.path("warm", key) }
func (l layout) record(name string) string   { return l.path("templates", name+".json") }
func (l layout) recipe(key string) string    { return l.path("recipes", key) }
func (l layout) build(key string) string     { return l.path("tmp", "build-"+short(key)) }
func (l layout) warmBuild(key string) string { return l.path("tmp", "warm-"+short(key)) }
func (l layout) lockFile(name string) string { return l.path("locks", name) }
func (l layout) aptCache() string            { return l.path("cache", "apt") }
func (l layout) wheels() string              { return l.path("cache", "wheels") }

// short is enough of a key for a name people see.
func short(key string) string { return key[:min(len(key), 16)] }

func (l layout) prepare() error {
	for _, dir := range []string{"images/by-recipe", "boot", "warm", "templates", "recipes", "tmp", "locks", "cache/apt", "cache/wheels"} {
		if err := os.MkdirAll(l.path(dir), 0o700); err != nil {
			return fmt.Errorf("prepare the data directory: %w", err)
		}
	}
	return nil
}
