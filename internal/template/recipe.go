package template

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// recipeFile is the recipe's name in a template's folder.
const recipeFile = "template.yaml"

// Recipe is a template.yaml.
type Recipe struct {
	Name        string            `yaml:"name" json:"name"`
	Description string            `yaml:"description" json:"description"`
	Base        Base              `yaml:"base" json:"base"`
	Packages    []string          `yaml:"packages" json:"packages,omitempty"` // Debian packages
	Python      *Python           `yaml:"python" json:"python,omitempty"`
	Files       []File            `yaml:"files" json:"files,omitempty"`
	Env         map[string]string `yaml:"env" json:"env,omitempty"`
	// Start runs once while the template is baked and what it leaves running is
	// in every sandbox; Ready is tried until it exits 0. Both are shell lines.
	Start    string `yaml:"start" json:"start,omitempty"`
	Ready    string `yaml:"ready" json:"ready,omitempty"`
	Warm     WarmUp `yaml:"warm" json:"warm"`
	CPU      int    `yaml:"cpu" json:"cpu"`
	MemoryMB int    `yaml:"memory_mb" json:"memory_mb"`
	DiskMB   int    `yaml:"disk_mb" json:"disk_mb"` // the writable disk
}

// Base names what a root file system starts from.
type Base struct {
	Debian string `yaml:"debian" json:"debian"` // suite
}

// Python asks for a virtual environment with exactly the packages of a lock.
type Python struct {
	Lock string `yaml:"lock" json:"lock"` // a requirements file with hashes, in the recipe's folder
}

// File is copied from the recipe's folder into the image.
type File struct {
	From string `yaml:"from" json:"from"`
	To   string `yaml:"to" json:"to"`
	Mode uint32 `yaml:"mode" json:"mode,omitempty"` // 0 means 0644
}

// WarmUp is done in the Python kernel before the template's memory is saved.
type WarmUp struct {
	Imports []string `yaml:"imports" json:"imports,omitempty"`
	Cells   []string `yaml:"cells" json:"cells,omitempty"`
}

// Source is a checked recipe with the files it names.
type Source struct {
	Recipe Recipe
	Lock   []byte            // content of Python.Lock
	Files  map[string][]byte // content by File.From
}

// Load reads and checks the recipe in fsys, a template's folder. Its error
// names every bad key with its line.
func Load(fsys fs.FS) (*Source, error) {
	text, err := fs.ReadFile(fsys, recipeFile)
	if err != nil {
		return nil, fmt.Errorf("read recipe: %w", err)
	}
	src := &Source{Recipe: Recipe{CPU: 1, MemoryMB: 1024, DiskMB: 8192}, Files: map[string][]byte{}}
	if err := yaml.UnmarshalWithOptions(text, &src.Recipe, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s: %s", recipeFile, yaml.FormatError(err, false, true))
	}
	doc, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", recipeFile, err)
	}
	c := checker{doc: doc}
	c.recipe(&src.Recipe)
	src.readFiles(fsys, &c)
	if err := errors.Join(c.errs...); err != nil {
		return nil, err
	}
	return src, nil
}

func (s *Source) readFiles(fsys fs.FS, c *checker) {
	for i, f := range s.Recipe.Files {
		data, err := fs.ReadFile(fsys, f.From)
		if err != nil {
			c.fail(fmt.Sprintf("files[%d].from", i), "cannot be read: %v", err)
			continue
		}
		s.Files[f.From] = data
	}
	if s.Recipe.Python == nil {
		return
	}
	lock, err := fs.ReadFile(fsys, s.Recipe.Python.Lock)
	if err != nil {
		c.fail("python.lock", "cannot be read: %v", err)
		return
	}
	if _, err := parseLock(lock); err != nil {
		c.fail("python.lock", "%v", err)
	}
	s.Lock = lock
}

// suites are the Debian releases a recipe may start from.
var suites = []string{"trixie"}

var (
	namePattern    = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	packagePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)
	envPattern     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	importPattern  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)
)

// checker collects what is wrong with a recipe.
type checker struct {
	doc  *ast.File
	errs []error
}

func (c *checker) recipe(r *Recipe) {
	c.match("name", r.Name, namePattern, "lower-case letters, digits and dashes, at most 63")
	if !slices.Contains(suites, r.Base.Debian) {
		c.fail("base.debian", "is %q; known are %s", r.Base.Debian, strings.Join(suites, ", "))
	}
	for i, p := range r.Packages {
		c.match(fmt.Sprintf("packages[%d]", i), p, packagePattern, "a Debian package name")
	}
	if r.Python != nil && !fs.ValidPath(r.Python.Lock) {
		c.fail("python.lock", "is %q; want a path inside the recipe's folder", r.Python.Lock)
	}
	for i, f := range r.Files {
		c.file(fmt.Sprintf("files[%d]", i), f)
	}
	for k, v := range r.Env {
		c.match("env."+k, k, envPattern, "a variable name of letters, digits and _")
		if strings.ContainsAny(v, "\n\x00") {
			c.fail("env."+k, "has a line break or NUL in its value")
		}
	}
	for i, name := range r.Warm.Imports {
		c.match(fmt.Sprintf("warm.imports[%d]", i), name, importPattern, "a Python module's dotted name")
	}
	c.within("cpu", r.CPU, 1, 64)
	c.within("memory_mb", r.MemoryMB, 128, 1<<20)
	c.within("disk_mb", r.DiskMB, 64, 4<<20)
}

func (c *checker) file(key string, f File) {
	if !fs.ValidPath(f.From) {
		c.fail(key+".from", "is %q; want a path inside the recipe's folder", f.From)
	}
	if !path.IsAbs(f.To) || path.Clean(f.To) != f.To || f.To == "/" {
		c.fail(key+".to", "is %q; want a clean absolute path", f.To)
	}
	if f.Mode > 0o777 {
		c.fail(key+".mode", "is %#o; want permission bits", f.Mode)
	}
}

func (c *checker) match(key, value string, want *regexp.Regexp, words string) {
	if !want.MatchString(value) {
		c.fail(key, "is %q; want %s", value, words)
	}
}

func (c *checker) within(key string, v, low, high int) {
	if v < low || v > high {
		c.fail(key, "is %d; want %d to %d", v, low, high)
	}
}

func (c *checker) fail(key, format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("%s:%d: %s %s", recipeFile, c.line(key), key, fmt.Sprintf(format, args...)))
}

// line finds where key is written; a key that is absent is reported at the
// line of the nearest parent that is there.
func (c *checker) line(key string) int {
	for key != "" {
		if p, err := yaml.PathString("$." + key); err == nil {
			if node, err := p.FilterFile(c.doc); err == nil && node != nil {
				return node.GetToken().Position.Line
			}
		}
		cut := strings.LastIndexAny(key, ".[")
		key = key[:max(cut, 0)]
	}
	return 1
}
