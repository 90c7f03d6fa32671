package template

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

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
	if r.Python != nil {
		c.python(r.Python)
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
	if r.Python == nil && (len(r.Warm.Imports) > 0 || len(r.Warm.Cells) > 0) {
		c.fail("warm", "needs Python: add a 'python' section, which may be empty: {}")
	}
	if len(r.Variants) > maxVariants-1 {
		c.fail("variants", "has %d entries; want at most %d", len(r.Variants), maxVariants-1)
	}
	c.size("", Variant{CPU: r.CPU, MemoryMB: r.MemoryMB})
	for i, v := range r.Variants {
		c.size(fmt.Sprintf("variants[%d].", i), r.variant(v))
	}
	c.within("disk_mb", r.DiskMB, 64, 4<<20)
}

func (c *checker) size(prefix string, v Variant) {
	c.within(prefix+"cpu", v.CPU, 1, MaxCPU)
	c.within(prefix+"memory_mb", v.MemoryMB, MinMemoryMB, MaxMemoryMB)
}

func (c *checker) python(p *Python) {
	if p.Lock != "" && (p.Requirements != "" || len(p.Packages) > 0) {
		c.fail("python", "has a lock, which names everything; 'packages' and 'requirements' are for recipes without one")
	}
	for key, name := range map[string]string{"python.lock": p.Lock, "python.requirements": p.Requirements} {
		if name != "" && !fs.ValidPath(name) {
			c.fail(key, "is %q; want a path inside the recipe's folder", name)
		}
	}
	for i, line := range p.Packages {
		c.match(fmt.Sprintf("python.packages[%d]", i), line, wantedPattern, "a package such as polars, polars==1.30 or polars[excel]>=1.2")
	}
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

// read gives a file's content, nil when it cannot be read.
func (c *checker) read(fsys fs.FS, key, name string) []byte {
	content, err := fs.ReadFile(fsys, name)
	if err != nil {
		c.fail(key, "cannot be read: %v", err)
		return nil
	}
	return content
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
