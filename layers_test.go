// Package pandastack holds the tree-wide rules, as tests.
package pandastack

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "pandastack"

// layer is one line of layers.txt.
type layer struct {
	name     string
	order    int // its line: arrows point to higher ones
	patterns []string
	may      []string // names of layers; "*" is all below, "std" forbids third-party imports
}

// unit is what may import itself freely.
type unit struct {
	layer *layer
	name  string
}

func readLayers(text string) ([]*layer, error) {
	var layers []*layer
	for i, line := range strings.Split(text, "\n") {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		left, right, ok := strings.Cut(line, "->")
		words := strings.Fields(left)
		if !ok || len(words) < 2 {
			return nil, fmt.Errorf("layers.txt:%d: want NAME PACKAGE… -> LAYER…", i+1)
		}
		layers = append(layers, &layer{name: words[0], order: i, patterns: words[1:], may: strings.Fields(right)})
	}
	return layers, checkArrows(layers)
}

func checkArrows(layers []*layer) error {
	byName := map[string]*layer{}
	for _, l := range layers {
		if byName[l.name] != nil {
			return fmt.Errorf("layers.txt: two lines are named %s", l.name)
		}
		byName[l.name] = l
	}
	for _, l := range layers {
		for _, target := range l.may {
			switch t := byName[target]; {
			case target == "*" || target == "std":
			case t == nil:
				return fmt.Errorf("layers.txt: %s -> %s: there is no such layer", l.name, target)
			case t.order <= l.order:
				return fmt.Errorf("layers.txt: %s -> %s points up the page", l.name, target)
			}
		}
	}
	return nil
}

// unitOf finds the unit of a package, given by its path in the module. A
// pattern that names more of the path wins.
func unitOf(layers []*layer, pkg string) (unit, bool) {
	best, length := unit{}, -1
	for _, l := range layers {
		for _, p := range l.patterns {
			if name, ok := match(p, pkg); ok && len(p) > length {
				best, length = unit{l, name}, len(p)
			}
		}
	}
	return best, length >= 0
}

// match says whether pattern covers pkg, and by which unit's name.
func match(pattern, pkg string) (string, bool) {
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return base, pkg == base || strings.HasPrefix(pkg, base+"/")
	}
	if base, ok := strings.CutSuffix(pattern, "/*"); ok {
		rest, ok := strings.CutPrefix(pkg, base+"/")
		child, _, _ := strings.Cut(rest, "/")
		return base + "/" + child, ok
	}
	return pattern, pkg == pattern
}

// verdict says why a package of unit from may not import the path, or "".
func verdict(layers []*layer, from unit, imported string) string {
	inside, ours := strings.CutPrefix(imported, module+"/")
	if !ours {
		if slices.Contains(from.layer.may, "std") && !standard(imported) {
			return fmt.Sprintf("%s keeps to the standard library", from.layer.name)
		}
		return ""
	}
	to, ok := unitOf(layers, inside)
	switch {
	case !ok:
		return "no line of layers.txt covers it"
	case to == from:
		return ""
	case to.layer == from.layer:
		return fmt.Sprintf("%s and %s are two units of the layer %s", from.name, to.name, to.layer.name)
	case slices.Contains(from.layer.may, to.layer.name):
		return ""
	case slices.Contains(from.layer.may, "*") && to.layer.order > from.layer.order:
		return ""
	}
	return fmt.Sprintf("layers.txt has no arrow %s -> %s", from.layer.name, to.layer.name)
}

// standard counts golang.org/x/sys in: it is where the standard library's
// system calls live on.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".") || strings.HasPrefix(imported, "golang.org/x/sys/")
}

// goFiles gives the module's Go files that are not tests.
func goFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if p != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			files = append(files, p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestLayers(t *testing.T) {
	text, err := os.ReadFile("layers.txt")
	if err != nil {
		t.Fatal(err)
	}
	layers, err := readLayers(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range goFiles(t) {
		pkg := path.Dir(filepath.ToSlash(file))
		from, ok := unitOf(layers, pkg)
		if !ok {
			t.Errorf("%s: no line of layers.txt covers package %s", file, pkg)
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if why := verdict(layers, from, imported); why != "" {
				t.Errorf("%s: package %s (layer %s) may not import %s: %s", file, pkg, from.layer.name, imported, why)
			}
		}
	}
}

// TestLayerRules keeps the rules themselves honest.
func TestLayerRules(t *testing.T) {
	const text = "app internal/app -> *\nedge internal/http/... -> service\nservice internal/a internal/b -> kit\nkit internal/kit/* -> std\n"
	layers, err := readLayers(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, imported string
		fine           bool
	}{
		{"internal/app", "pandastack/internal/kit/x", true},
		{"internal/http/v1", "pandastack/internal/http", true},
		{"internal/http/v1", "pandastack/internal/a", true},
		{"internal/http", "pandastack/internal/kit/x", false},
		{"internal/a", "pandastack/internal/b", false},
		{"internal/a", "pandastack/internal/http", false},
		{"internal/a", "github.com/x/y", true},
		{"internal/a", "pandastack/internal/unknown", false},
		{"internal/kit/x", "pandastack/internal/kit/y", false},
		{"internal/kit/x", "pandastack/internal/kit/x/deep", true},
		{"internal/kit/x", "github.com/x/y", false},
		{"internal/kit/x", "net/http", true},
	} {
		from, ok := unitOf(layers, c.from)
		if why := verdict(layers, from, c.imported); !ok || (why == "") != c.fine {
			t.Errorf("%s importing %s: fine should be %v, verdict %q", c.from, c.imported, c.fine, why)
		}
	}
	if _, err := readLayers("a x -> b\nb y -> a\n"); err == nil {
		t.Error("an arrow that points up the page was accepted")
	}
}

// TestPackageDocs wants a sentence about every package.
func TestPackageDocs(t *testing.T) {
	documented := map[string]bool{}
	for _, file := range goFiles(t) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Dir(file)
		documented[dir] = documented[dir] || parsed.Doc != nil
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no doc sentence", dir)
		}
	}
}
