package template

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// ImageManifest says what is in an image and where it came from.
type ImageManifest struct {
	Format  int             `json:"format"`
	Digest  string          `json:"digest"`
	Name    string          `json:"name"`
	Recipe  string          `json:"recipe"` // RecipeKey
	Lock    string          `json:"lock,omitempty"`
	Kernel  DebianPackage   `json:"kernel"`
	Debian  []DebianPackage `json:"debian"`
	Python  []PythonPackage `json:"python,omitempty"`
	Sizes   ImageSizes      `json:"sizes"`
	SHA256  string          `json:"sha256"` // of base.ext4
	Steps   []StepTime      `json:"steps"`
	Created time.Time       `json:"created_at"`
}

// ImageSizes are in bytes. Allocated is what base.ext4 takes on disk.
type ImageSizes struct {
	Base      int64 `json:"base"`
	Allocated int64 `json:"allocated"`
	Kernel    int64 `json:"kernel"`
	Modules   int64 `json:"modules"`
}

// DebianPackage is one installed package and the digest of its .deb.
type DebianPackage struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Arch    string `json:"architecture"`
	SHA256  string `json:"sha256"`
}

// StepTime is how long a step took, in the build that did it.
type StepTime struct {
	Name string `json:"name"`
	MS   int64  `json:"ms"`
}

// Change is one package that differs between two images. An empty version
// means that the package is not there.
type Change struct {
	Name, Old, New string
}

func (c Change) String() string {
	switch {
	case c.Old == "":
		return fmt.Sprintf("+ %s %s", c.Name, c.New)
	case c.New == "":
		return fmt.Sprintf("- %s %s", c.Name, c.Old)
	default:
		return fmt.Sprintf("~ %s %s -> %s", c.Name, c.Old, c.New)
	}
}

// Diff lists what changed from old to new, by name.
func Diff(old, new *ImageManifest) []Change {
	was, is := old.versions(), new.versions()
	names := maps.Clone(was)
	maps.Copy(names, is)
	var out []Change
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if was[name] != is[name] {
			out = append(out, Change{Name: name, Old: was[name], New: is[name]})
		}
	}
	return out
}

// versions maps each package, the kernel and Python's too, to what identifies
// its content.
func (m *ImageManifest) versions() map[string]string {
	out := map[string]string{}
	for _, p := range append(slices.Clone(m.Debian), m.Kernel) {
		out[p.Name+":"+p.Arch] = fmt.Sprintf("%s (%.8s)", p.Version, p.SHA256)
	}
	for _, p := range m.Python {
		out["python:"+p.Name] = p.Version
	}
	return out
}
