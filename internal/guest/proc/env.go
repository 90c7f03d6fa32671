package proc

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// DefaultPath is the PATH of processes that are given none.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Env is what every process starts from: a sane default and, where they exist,
// the Python environment venv ("" for none) and the template's file of KEY=VALUE
// lines.
func Env(venv, file string) []string {
	env := []string{"PATH=" + DefaultPath, "HOME=/root", "LANG=C.UTF-8", "TERM=dumb", "SHELL=/bin/sh", "USER=root"}
	if venv != "" {
		env = append(env, "PATH="+venv+"/bin:"+DefaultPath, "VIRTUAL_ENV="+venv)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return dedupe(env) // a template need not have one
	}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if key, _, ok := strings.Cut(line, "="); ok && key != "" && key[0] != '#' {
			env = append(env, line)
		}
	}
	return dedupe(env)
}

// dedupe keeps the last value of each variable, in order.
func dedupe(env []string) []string {
	last := make(map[string]int, len(env))
	for i, kv := range env {
		key, _, _ := strings.Cut(kv, "=")
		last[key] = i
	}
	kept := make([]string, 0, len(last))
	for i, kv := range env {
		if key, _, _ := strings.Cut(kv, "="); last[key] == i {
			kept = append(kept, kv)
		}
	}
	return kept
}

// lookPath finds a command in the PATH of env, which is the guest user's, not
// the agent's. A name that is not found is returned for the start to fail.
func lookPath(name, cwd string, env []string) string {
	if strings.Contains(name, "/") {
		return name
	}
	path := ""
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	for _, dir := range filepath.SplitList(path) {
		full := filepath.Join(dir, name)
		if !filepath.IsAbs(full) {
			full = filepath.Join(cwd, full)
		}
		if st, err := os.Stat(full); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return full
		}
	}
	return name
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
