package template

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxSourceBytes is what the files of a recipe may have together: they are held
// in memory.
const maxSourceBytes = 256 << 20

const maxRecipeBytes = 256 << 10

// Source is a checked recipe with the files it names.
type Source struct {
	Recipe       Recipe
	Text         []byte            // of template.yaml
	Lock         []byte            // content of Python.Lock
	Requirements []byte            // content of Python.Requirements
	Files        map[string][]byte // content by File.From
	// Kept names the copy of a user's recipe in the data directory; "" for one
	// that ships.
	Kept string
}

// Load reads and checks the recipe in fsys, a template's folder. Its error
// names every bad key with its line.
func Load(fsys fs.FS) (*Source, error) {
	text, err := fs.ReadFile(fsys, recipeFile)
	if err != nil {
		return nil, fmt.Errorf("read recipe: %w", err)
	}
	src := &Source{Recipe: Recipe{CPU: 1, MemoryMB: 1024, DiskMB: 8192}, Text: text, Files: map[string][]byte{}}
	doc, err := parseRecipe(text, &src.Recipe)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", recipeFile, err)
	}
	c := checker{doc: doc}
	c.recipe(&src.Recipe)
	src.readFiles(fsys, &c)
	src.readPython(fsys, &c)
	if err := errors.Join(c.errs...); err != nil {
		return nil, err
	}
	return src, nil
}

// parseRecipe reads YAML. The parser panics on some that is broken, which must
// not cost more than the recipe.
func parseRecipe(text []byte, into *Recipe) (doc *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			doc, err = nil, fmt.Errorf("is not YAML that can be read: %v", p)
		}
	}()
	if len(text) > maxRecipeBytes {
		return nil, fmt.Errorf("has %d bytes; a recipe has at most %d", len(text), maxRecipeBytes)
	}
	if err := yaml.UnmarshalWithOptions(text, into, yaml.Strict()); err != nil {
		return nil, errors.New(yaml.FormatError(err, false, true))
	}
	return parser.ParseBytes(text, 0)
}

// readFiles reads what Files names and puts the files of a folder in its place.
func (s *Source) readFiles(fsys fs.FS, c *checker) {
	var all []File
	total := 0
	for i, f := range s.Recipe.Files {
		key := fmt.Sprintf("files[%d].from", i)
		err := fs.WalkDir(fsys, f.From, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			one, err := s.readFile(fsys, f, name)
			total += len(s.Files[name])
			all = append(all, one)
			return err
		})
		if err != nil {
			c.fail(key, "cannot be read: %v", err)
		}
		if total > maxSourceBytes {
			c.fail(key, "makes the recipe's files larger than %d MiB", maxSourceBytes>>20)
			return
		}
	}
	s.Recipe.Files = all
}

// readFile reads one file that f names, itself or by its folder.
func (s *Source) readFile(fsys fs.FS, f File, name string) (File, error) {
	one := File{From: name, To: path.Join(f.To, strings.TrimPrefix(name, f.From)), Mode: f.Mode}
	if f.From == "." {
		one.To = path.Join(f.To, name)
	}
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return one, err
	}
	if !info.Mode().IsRegular() {
		return one, fmt.Errorf("%s is no regular file", name)
	}
	if info.Size() > maxSourceBytes {
		return one, fmt.Errorf("%s is larger than %d MiB", name, maxSourceBytes>>20)
	}
	if one.Mode == 0 && info.Mode()&0o111 != 0 {
		one.Mode = 0o755
	}
	s.Files[name], err = fs.ReadFile(fsys, name)
	return one, err
}

func (s *Source) readPython(fsys fs.FS, c *checker) {
	p := s.Recipe.Python
	if p == nil {
		return
	}
	if p.Lock != "" {
		s.Lock = c.read(fsys, "python.lock", p.Lock)
		if err := checkLock(s.Lock); s.Lock != nil && err != nil {
			c.fail("python.lock", "%v", err)
		}
	}
	if p.Requirements != "" {
		s.Requirements = c.read(fsys, "python.requirements", p.Requirements)
		if _, err := parseRequirements(s.Requirements); err != nil {
			c.fail("python.requirements", "%v", err)
		}
	}
}

// wanted lists what is to be resolved when the image is built; nothing with a
// lock or without Python.
func (s *Source) wanted() []string {
	if s.Recipe.Python == nil || s.Lock != nil {
		return nil
	}
	list := append(slices.Clone(kernelPackages), s.Recipe.Python.Packages...)
	more, _ := parseRequirements(s.Requirements) // Load has checked them
	return append(list, more...)
}

// contents is the recipe's folder as it is kept: only what the recipe names.
func (s *Source) contents() map[string][]byte {
	all := map[string][]byte{recipeFile: s.Text}
	for name, content := range s.Files {
		all[name] = content
	}
	if s.Lock != nil {
		all[s.Recipe.Python.Lock] = s.Lock
	}
	if s.Requirements != nil {
		all[s.Recipe.Python.Requirements] = s.Requirements
	}
	return all
}
