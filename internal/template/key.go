package template

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
)

// formatVersion is raised when the builder makes something else of the same
// recipe, so that what older builders left is not mistaken for its own work.
const formatVersion = 1

// digest hashes labelled fields, each with its length, so that no two
// different sequences of fields give the same bytes.
type digest struct{ h hash.Hash }

func newDigest(kind string) digest {
	d := digest{sha256.New()}
	d.add("kind", kind)
	return d
}

func (d digest) add(label string, value string) {
	fmt.Fprintf(d.h, "%s %d\n", label, len(value))
	io.WriteString(d.h, value)
}

func (d digest) sum() string { return hex.EncodeToString(d.h.Sum(nil)) }

// RecipeKey names everything of the recipe that shapes the disk image: not the
// warm-up, start command and size, whose edits cost one boot and no new image.
func (s *Source) RecipeKey() string {
	r := s.Recipe
	d := newDigest("recipe")
	d.add("format", fmt.Sprint(formatVersion))
	d.add("recipe", mustJSON(Recipe{Base: r.Base, Packages: r.Packages, Python: r.Python, Files: r.Files, Env: r.Env}))
	d.add("lock", string(s.Lock))
	for _, wanted := range s.wanted() {
		d.add("wanted", wanted)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		d.add("file "+name, string(s.Files[name]))
	}
	return d.sum()
}

// folderKey names the recipe with all it holds, as it is kept.
func (s *Source) folderKey() string {
	d := newDigest("folder")
	content := s.contents()
	for _, name := range slices.Sorted(maps.Keys(content)) {
		d.add("file "+name, string(content[name]))
	}
	for _, f := range s.Recipe.Files {
		d.add("mode "+f.From, fmt.Sprint(f.Mode))
	}
	return d.sum()
}

// imageDigest names an image by what it was asked for and what that resolved to.
func imageDigest(m *ImageManifest) string {
	d := newDigest("image")
	d.add("recipe", m.Recipe)
	d.add("lock", m.Lock)
	d.add("kernel", mustJSON(m.Kernel))
	d.add("debian", mustJSON(m.Debian))
	return d.sum()
}

func hashBytes(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// mustJSON encodes values of this package's own plain types, which cannot fail.
func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("template: encode %T: %v", v, err))
	}
	return string(b)
}
