package template

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// venv is where the recipe's Python lives in the image.
const venv = "/opt/pandastack/venv"

// envFile is /etc/pandastack/env: what every process in a sandbox starts with,
// one KEY=VALUE a line. The recipe's own values win.
func envFile(r Recipe) string {
	env := map[string]string{
		"LANG": "C.UTF-8",
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME": "/root",
	}
	if r.Python != nil {
		env["PATH"] = venv + "/bin:" + env["PATH"]
		env["VIRTUAL_ENV"] = venv
	}
	maps.Copy(env, r.Env)
	var out strings.Builder
	for _, k := range slices.Sorted(maps.Keys(env)) {
		fmt.Fprintf(&out, "%s=%s\n", k, env[k])
	}
	return out.String()
}

// defaultSources is the image's own sources.list: Debian's, whatever mirror
// this host used.
func defaultSources(suite string) string {
	return fmt.Sprintf("deb %[1]s %[3]s main\ndeb %[1]s %[3]s-updates main\ndeb %[2]s %[3]s-security main\n",
		DefaultMirror, DefaultSecurityMirror, suite)
}
