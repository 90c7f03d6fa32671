package template

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// PythonPackage is one entry of a lock.
type PythonPackage struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Hashes  []string `json:"hashes"` // sha256:…, any of which may be installed
}

// kernelPackages are what the Python kernel host stands on.
var kernelPackages = []string{"ipython", "comm"}

// wantedPattern is a requirement by name: no URL, path or option of pip's, which
// would mean different things on different hosts.
var wantedPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._, -]*\])?\s*([<>=!~;][^@\n]*)?$`)

// parseRequirements reads a requirements file of names, versions and markers.
func parseRequirements(text []byte) ([]string, error) {
	var list []string
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if !wantedPattern.MatchString(line) {
			return nil, fmt.Errorf("has %q; want packages by name, one a line, and no options", line)
		}
		list = append(list, line)
	}
	return list, nil
}

var requirementPattern = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;]+)$`)

// parseLock reads a requirements file in which every package is pinned and has
// hashes. Anything else (an index URL, an option, a range) is refused: it would
// make the same lock mean different things on different hosts.
func parseLock(text []byte) ([]PythonPackage, error) {
	var out []PythonPackage
	joined := strings.ReplaceAll(string(text), "\\\n", " ")
	for line := range strings.Lines(joined) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		m := requirementPattern.FindStringSubmatch(fields[0])
		if m == nil {
			return nil, fmt.Errorf("has %q; want name==version with hashes only", fields[0])
		}
		p := PythonPackage{Name: m[1], Version: m[2]}
		for _, f := range fields[1:] {
			hash, ok := strings.CutPrefix(f, "--hash=")
			if !ok {
				return nil, fmt.Errorf("has %q after %s; want --hash only", f, p.Name)
			}
			p.Hashes = append(p.Hashes, hash)
		}
		if len(p.Hashes) == 0 {
			return nil, fmt.Errorf("has no hash for %s", p.Name)
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, errors.New("names no package")
	}
	return out, nil
}

// checkLock says what is wrong with a recipe's lock.
func checkLock(text []byte) error {
	list, err := parseLock(text)
	if err != nil {
		return err
	}
	for _, name := range kernelPackages {
		if !slices.ContainsFunc(list, func(p PythonPackage) bool { return strings.EqualFold(p.Name, name) }) {
			return fmt.Errorf("lacks %s, which the kernel of code contexts needs", name)
		}
	}
	return nil
}

// formatLock writes a lock that parseLock reads.
func formatLock(list []PythonPackage) []byte {
	var out strings.Builder
	for _, p := range list {
		fmt.Fprintf(&out, "%s==%s", p.Name, p.Version)
		for _, h := range p.Hashes {
			fmt.Fprintf(&out, " --hash=%s", h)
		}
		out.WriteString("\n")
	}
	return []byte(out.String())
}
