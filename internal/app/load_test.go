package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func env(values map[string]string) func(string) string {
	return func(key string) string { return values[key] }
}

func TestLoadOrder(t *testing.T) {
	file := write(t, "data_dir: /file\nlisten: 127.0.0.1:1\nallow_hosts: [a, b]\nlog_level: warn\nmax_sandboxes: 3\n")
	got, err := Load(
		map[string]string{"config": file, "data_dir": "/flag"},
		env(map[string]string{"PANDASTACK_DATA_DIR": "/env", "PANDASTACK_LISTEN": "127.0.0.1:2"}),
	)
	if err != nil {
		t.Fatal(err)
	}
	if got.DataDir != "/flag" || got.Listen != "127.0.0.1:2" || got.LogLevel != "warn" || got.MaxSandboxes != 3 {
		t.Errorf("flag, environment, file, file: got %+v", got)
	}
	if strings.Join(got.AllowHosts, "|") != "a|b" || got.Jail != "auto" {
		t.Errorf("list, default: got %+v", got)
	}
}

func TestLoadNamesTheKey(t *testing.T) {
	for _, c := range []struct{ name, file, key, value, want string }{
		{"unknown key", "nope: 1\n", "", "", "nope: "},
		{"not YAML", "a: [\n", "", "", "config: "},
		{"not a number", "", "memory_mb", "much", "memory_mb: "},
		{"negative", "", "memory_mb", "-1", "memory_mb: "},
		{"no port", "", "listen", "127.0.0.1", "listen: "},
		{"port too high", "", "listen", "127.0.0.1:70000", "listen: "},
		{"no such accelerator", "", "accelerator", "warp", "accelerator: "},
		{"no such level", "", "log_level", "loud", "log_level: "},
		{"system user", "", "uid_first", "0", "uid_first: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			flags := map[string]string{"config": write(t, c.file)}
			if c.key != "" {
				flags[c.key] = c.value
			}
			if _, err := Load(flags, env(nil)); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want one that begins %q", err, c.want)
			}
		})
	}
	if _, err := Load(map[string]string{"config": "/no/such/file"}, env(nil)); err == nil {
		t.Error("a file that was named and is not there is an error")
	}
}
