package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"pandastack/client"
)

// clientFlags say which server a command speaks to.
type clientFlags struct {
	API     string `name:"api" placeholder:"URL" help:"Server to use [PANDASTACK_API; the one running here]."`
	APIKey  string `name:"api-key" placeholder:"KEY" help:"Its API key [PANDASTACK_API_KEY; the one in its data directory]."`
	DataDir string `name:"data-dir" placeholder:"DIR" help:"Data directory to find it in [PANDASTACK_DATA_DIR]."`
}

// connect finds server and key: flags, environment, then the server of this
// machine. A key found in a file is only ever sent to the server it belongs to.
func (f clientFlags) connect(getenv func(string) string) (*client.Client, error) {
	url := first(f.API, getenv("PANDASTACK_API"))
	key := first(f.APIKey, getenv("PANDASTACK_API_KEY"))
	if url != "" && key != "" {
		return client.New(url, key, nil), nil
	}
	local, err := readServer(first(f.DataDir, dataDir(getenv)))
	if err != nil && (url == "" || key == "") {
		return nil, err
	}
	if url == "" {
		url = local.URL
	}
	if key == "" && sameServer(url, local.URL) {
		if key, err = local.key(); err != nil {
			return nil, err
		}
	}
	if key == "" {
		return nil, &localError{"no API key for " + url, "give it with --api-key or PANDASTACK_API_KEY"}
	}
	return client.New(url, key, nil), nil
}

func sameServer(a, b string) bool { return strings.TrimRight(a, "/") == strings.TrimRight(b, "/") }

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

func dataDir(getenv func(string) string) string {
	switch {
	case getenv("PANDASTACK_DATA_DIR") != "":
		return getenv("PANDASTACK_DATA_DIR")
	case os.Geteuid() == 0:
		return "/var/lib/pandastack"
	}
	return filepath.Join(getenv("HOME"), ".local/share/pandastack")
}

// server is a running server's announcement in its data directory.
type server struct {
	URL     string `json:"url"`
	PID     int    `json:"pid"`
	KeyFile string `json:"key_file"`
}

func readServer(dir string) (server, error) {
	const hint = "'pandastack serve' starts one; --api or PANDASTACK_API names another"
	var s server
	path := filepath.Join(dir, "server.json")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, &noServerError{localError{"no server is running here: there is no " + path, hint}}
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return s, &localError{fmt.Sprintf("%s cannot be used: %v", path, err), hint}
	}
	if s.PID > 0 && errors.Is(syscall.Kill(s.PID, 0), syscall.ESRCH) { // a killed server leaves its file
		return s, &noServerError{localError{fmt.Sprintf("no server is running here: process %d of %s has ended", s.PID, path), hint}}
	}
	return s, nil
}

func (s server) key() (string, error) {
	text, err := os.ReadFile(s.KeyFile)
	if err != nil {
		return "", &localError{fmt.Sprintf("the server's key cannot be read: %v", err), "give it with --api-key or PANDASTACK_API_KEY"}
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return line, nil
		}
	}
	return "", &localError{s.KeyFile + " has no key in it", "give one with --api-key or PANDASTACK_API_KEY"}
}
