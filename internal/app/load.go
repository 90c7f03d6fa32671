package app

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// envPrefix is put before a key in upper case: PANDASTACK_DATA_DIR.
const envPrefix = "PANDASTACK_"

// systemFile is read when no other file is named and it is there.
const systemFile = "/etc/pandastack/config.yaml"

// Load puts a configuration together: flags win over the environment, that
// over the file, that over the defaults. Flags are given by key; beside the
// keys of Config there is "config", the path of a YAML or JSON file.
func Load(flags map[string]string, getenv func(string) string) (Config, error) {
	c := defaults()
	c.DataDir = defaultDataDir(getenv)
	fromFile, err := readFile(flags["config"], getenv)
	if err != nil {
		return c, err
	}
	for _, f := range c.fields() {
		for _, value := range []string{fromFile[f.key], getenv(envPrefix + strings.ToUpper(f.key)), flags[f.key]} {
			if value == "" {
				continue
			}
			if err := f.set(value); err != nil {
				return c, badConfig(f.key, "%v", err)
			}
		}
		delete(fromFile, f.key)
	}
	if unknown := slices.Sorted(maps.Keys(fromFile)); len(unknown) > 0 {
		return c, badConfig(unknown[0], "the configuration file has this key, and there is no such setting")
	}
	if c.DataDir, err = filepath.Abs(c.DataDir); err != nil {
		return c, badConfig("data_dir", "%v", err)
	}
	return c, c.Validate()
}

func defaultDataDir(getenv func(string) string) string {
	if os.Geteuid() == 0 {
		return "/var/lib/pandastack"
	}
	return filepath.Join(getenv("HOME"), ".local/share/pandastack")
}

// readFile gives a configuration file's values as a flag would have them.
func readFile(path string, getenv func(string) string) (map[string]string, error) {
	if path == "" {
		path = getenv(envPrefix + "CONFIG")
	}
	named := path != ""
	if !named {
		path = systemFile
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil, nil
	}
	if err != nil {
		return nil, badConfig("config", "%v", err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(data, &values); err != nil {
		return nil, badConfig("config", "%s: %s", path, yaml.FormatError(err, false, true))
	}
	out := make(map[string]string, len(values))
	for key, value := range values {
		out[key] = asFlag(value)
	}
	return out, nil
}

func asFlag(value any) string {
	items, ok := value.([]any)
	if !ok {
		return fmt.Sprint(value)
	}
	words := make([]string, len(items))
	for i, item := range items {
		words[i] = fmt.Sprint(item)
	}
	return strings.Join(words, ",")
}
