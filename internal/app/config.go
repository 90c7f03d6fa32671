package app

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"pandastack/api"
	"pandastack/internal/panda"
)

// Config is all there is to set about a node. Its keys, in files and in
// environment variables, are those of fields.
type Config struct {
	DataDir        string
	Listen         string   // HOST:PORT; port 0 takes a free one
	AllowHosts     []string // names clients may call the server by
	Accelerator    string   // auto, kvm, tcg
	Jail           string   // auto (on for root), on, off
	Mirror         string   // Debian mirror for building templates
	SecurityMirror string
	LogLevel       string // debug, info, warn, error
	LogFormat      string // text, json
	MemoryMB       int    // what all sandboxes may use together; 0: no limit
	PrivateMB      int    // what one is reckoned to use; 0: its template's whole memory
	ReserveMB      int    // what must stay available on the host when another one starts
	MaxSandboxes   int    // 0: as many as there are user ids
	PoolMax        int    // machines that wait ready; 0: none
	PoolMemoryMB   int    // what they may use together
	UIDFirst       int    // user ids for virtual machines, when the jail is on
	UIDCount       int

	Version string // of this program; not a key

	embedded bool // in a command: nobody else is to find it
}

// defaults that just work.
func defaults() Config {
	return Config{
		Listen: "127.0.0.1:7070", Accelerator: "auto", Jail: "auto",
		LogLevel: "info", LogFormat: "text",
		UIDFirst: 700_000, UIDCount: 4096,
		PoolMax: 8, PoolMemoryMB: 512, ReserveMB: 512,
	}
}

// field is one key of the configuration.
type field struct {
	key string
	set func(string) error
}

func (c *Config) fields() []field {
	return []field{
		{"data_dir", text(&c.DataDir)},
		{"listen", text(&c.Listen)},
		{"allow_hosts", list(&c.AllowHosts)},
		{"accelerator", text(&c.Accelerator)},
		{"jail", text(&c.Jail)},
		{"mirror", text(&c.Mirror)},
		{"security_mirror", text(&c.SecurityMirror)},
		{"log_level", text(&c.LogLevel)},
		{"log_format", text(&c.LogFormat)},
		{"memory_mb", number(&c.MemoryMB)},
		{"private_mb", number(&c.PrivateMB)},
		{"reserve_mb", number(&c.ReserveMB)},
		{"max_sandboxes", number(&c.MaxSandboxes)},
		{"pool_max", number(&c.PoolMax)},
		{"pool_memory_mb", number(&c.PoolMemoryMB)},
		{"uid_first", number(&c.UIDFirst)},
		{"uid_count", number(&c.UIDCount)},
	}
}

func text(p *string) func(string) error {
	return func(s string) error { *p = s; return nil }
}

func number(p *int) func(string) error {
	return func(s string) (err error) {
		if *p, err = strconv.Atoi(s); err != nil {
			return fmt.Errorf("%q is not a whole number", s)
		}
		return nil
	}
}

func list(p *[]string) func(string) error {
	return func(s string) error {
		*p = strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
		return nil
	}
}

// Validate names the key that is wrong.
func (c Config) Validate() error {
	if !filepath.IsAbs(c.DataDir) {
		return badConfig("data_dir", "%q is not an absolute path", c.DataDir)
	}
	if _, port, err := net.SplitHostPort(c.Listen); err != nil || !validPort(port) {
		return badConfig("listen", "%q is not HOST:PORT", c.Listen)
	}
	for _, choice := range []struct {
		key, value string
		of         []string
	}{
		{"accelerator", c.Accelerator, []string{"auto", "kvm", "tcg"}},
		{"jail", c.Jail, []string{"auto", "on", "off"}},
		{"log_level", c.LogLevel, []string{"debug", "info", "warn", "error"}},
		{"log_format", c.LogFormat, []string{"text", "json"}},
	} {
		if !slices.Contains(choice.of, choice.value) {
			return badConfig(choice.key, "%q is none of %s", choice.value, strings.Join(choice.of, ", "))
		}
	}
	for key, n := range map[string]int{"memory_mb": c.MemoryMB, "private_mb": c.PrivateMB, "reserve_mb": c.ReserveMB, "max_sandboxes": c.MaxSandboxes, "pool_max": c.PoolMax, "pool_memory_mb": c.PoolMemoryMB, "uid_count": c.UIDCount} {
		if n < 0 {
			return badConfig(key, "%d is negative", n)
		}
	}
	if c.UIDFirst < 1000 {
		return badConfig("uid_first", "%d belongs to the system; take one from 1000 up", c.UIDFirst)
	}
	return nil
}

func validPort(port string) bool {
	n, err := strconv.Atoi(port)
	return err == nil && n >= 0 && n <= 65535
}

func badConfig(key, format string, args ...any) error {
	return &panda.Error{Code: api.CodeHostBadConfig, Message: key + ": " + fmt.Sprintf(format, args...)}
}
