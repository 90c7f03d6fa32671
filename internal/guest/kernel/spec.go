package kernel

import (
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"pandastack/internal/guestproto"
)

const (
	ownLanguage = "python" // of the kernel that needs no spec
	maxSpecs    = 100      // of one folder
	maxSpecFile = 64 << 10
)

// spec is a Jupyter kernelspec: how another kernel than our own is started.
type spec struct {
	name string
	dir  string

	Argv          []string          `json:"argv"`
	Language      string            `json:"language"`
	Env           map[string]string `json:"env"`
	InterruptMode string            `json:"interrupt_mode"`
}

// specs lists the kernelspecs by name; of those with the same name the first
// folder's counts.
func (m *Manager) specs() []*spec {
	found := map[string]*spec{}
	for _, path := range m.cfg.JupyterPath {
		folders, _ := filepath.Glob(filepath.Join(path, "kernels/*/kernel.json"))
		for _, file := range folders[:min(len(folders), maxSpecs)] {
			s, err := readSpec(file)
			if err != nil {
				m.log.Warn("read kernelspec", "file", file, "error", err)
			} else if found[s.name] == nil {
				found[s.name] = s
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *spec) int { return cmp.Compare(a.name, b.name) })
}

func readSpec(file string) (*spec, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	dir := filepath.Dir(file)
	s := &spec{name: filepath.Base(dir), dir: dir}
	if err := json.NewDecoder(io.LimitReader(f, maxSpecFile)).Decode(s); err != nil {
		return nil, err
	}
	s.Language = strings.ToLower(s.Language)
	if len(s.Argv) == 0 || s.Language == "" {
		return nil, guestproto.Errorf(guestproto.CodeInvalid, "it lacks argv or language")
	}
	return s, nil
}

// specOf finds what req asks for; nil means our own kernel.
func (m *Manager) specOf(req guestproto.KernelRequest) (*spec, error) {
	language := strings.ToLower(req.Language)
	if req.Kind == "" && (language == "" || language == ownLanguage) {
		return nil, nil
	}
	all := m.specs()
	for _, s := range all {
		if (req.Kind == "" || req.Kind == s.name) && (language == "" || language == s.Language) {
			return s, nil
		}
	}
	there := []string{ownLanguage}
	for _, s := range all {
		there = append(there, s.Language+` (kernel "`+s.name+`")`)
	}
	return nil, guestproto.Errorf(guestproto.CodeUnsupported, "no kernel for language %.40q, kernel %.40q; there are: %.600s",
		req.Language, req.Kind, strings.Join(there, ", "))
}

var pythons = regexp.MustCompile(`^python(3(\.\d+)?)?$`)

// command starts the kernel that serves the connection file.
func (s *spec) command(python, connection string) *exec.Cmd {
	fill := strings.NewReplacer("{connection_file}", connection, "{resource_dir}", s.dir)
	argv := make([]string, len(s.Argv))
	for n, arg := range s.Argv {
		argv[n] = fill.Replace(arg)
	}
	if pythons.MatchString(argv[0]) {
		argv[0] = python
	}
	return exec.Command(argv[0], argv[1:]...)
}
