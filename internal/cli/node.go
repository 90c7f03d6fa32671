package cli

import (
	"fmt"
	"strings"
)

// configFlags are the settings of the node itself. Each has an environment
// variable, PANDASTACK_ and the flag in upper case, and a key in the file.
type configFlags struct {
	Config         string   `placeholder:"FILE" help:"YAML or JSON file with settings [/etc/pandastack/config.yaml if there is one]."`
	DataDir        string   `placeholder:"DIR" help:"Folder of images, sandboxes and keys [/var/lib/pandastack, or ~/.local/share/pandastack]."`
	Accelerator    string   `placeholder:"auto|kvm|tcg" help:"How guests run [auto]."`
	Jail           string   `placeholder:"auto|on|off" help:"Confine each VMM in namespaces and a user of its own [auto: when root]."`
	Mirror         string   `placeholder:"URL" help:"Debian mirror that templates are built from."`
	SecurityMirror string   `placeholder:"URL" help:"The same for security updates."`
	LogLevel       string   `placeholder:"LEVEL" help:"debug, info, warn or error [info]."`
	LogFormat      string   `placeholder:"text|json" help:"[text]."`
	Listen         string   `placeholder:"HOST:PORT" help:"Address to serve on; port 0 takes a free one [127.0.0.1:7070]."`
	AllowHost      []string `placeholder:"NAME" help:"Host name clients may call the server by, beside its address."`
	MemoryMB       string   `name:"memory-mb" placeholder:"N" help:"Memory all sandboxes may use together [no limit]."`
	PrivateMB      string   `name:"private-mb" placeholder:"N" help:"Memory one sandbox is reckoned to use [its template's]."`
	ReserveMB      string   `name:"reserve-mb" placeholder:"N" help:"Memory that must stay available on the host when another sandbox starts [512]."`
	MaxSandboxes   string   `placeholder:"N" help:"Sandboxes at one time [no limit]."`
	PoolMax        string   `placeholder:"N" help:"Machines that wait ready; 0 for none [8]."`
	PoolMemoryMB   string   `name:"pool-memory-mb" placeholder:"N" help:"Memory those may use together [512]."`
}

func (f configFlags) settings() Settings {
	all := Settings{
		"config": f.Config, "data_dir": f.DataDir, "accelerator": f.Accelerator, "jail": f.Jail,
		"mirror": f.Mirror, "security_mirror": f.SecurityMirror, "log_level": f.LogLevel, "log_format": f.LogFormat,
		"listen": f.Listen, "allow_hosts": strings.Join(f.AllowHost, ","),
		"memory_mb": f.MemoryMB, "private_mb": f.PrivateMB, "reserve_mb": f.ReserveMB, "max_sandboxes": f.MaxSandboxes,
		"pool_max": f.PoolMax, "pool_memory_mb": f.PoolMemoryMB,
	}
	for key, value := range all {
		if value == "" {
			delete(all, key)
		}
	}
	return all
}

type serveCmd struct{ configFlags }

func (c *serveCmd) Run(s *session) error {
	return s.node.Serve(s.ctx, c.settings(), s.Stdout)
}

// Outcomes of a check.
const (
	OK   = "ok"
	Warn = "warn"
	Fail = "fail"
)

// Check is one thing doctor looked at.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warn or fail
	Found  string `json:"found"`
	Hint   string `json:"hint,omitempty"` // what to do about it
}

type doctorCmd struct {
	configFlags
	JSON bool `help:"Print JSON."`
}

func (c *doctorCmd) Run(s *session) error {
	checks := []Check{}
	err := s.node.Doctor(s.ctx, c.settings(), func(check Check) {
		checks = append(checks, check)
		if !c.JSON {
			printCheck(s, check)
		}
	})
	if err != nil {
		return err
	}
	if c.JSON {
		if err := printJSON(s.Stdout, checks); err != nil {
			return err
		}
	}
	for _, check := range checks {
		if check.Status == Fail {
			return exitCode(1)
		}
	}
	return nil
}

func printCheck(s *session, c Check) {
	colours := s.palette(s.Stdout)
	fmt.Fprintf(s.Stdout, "%s %-22s %s\n", colours.status(fmt.Sprintf("%-5s", c.Status)), c.Name, c.Found)
	if c.Hint != "" && c.Status != OK {
		fmt.Fprintf(s.Stdout, "%-5s %-22s → %s\n", "", "", c.Hint)
	}
}

type downCmd struct {
	DataDir string `placeholder:"DIR" help:"Data directory of the server [PANDASTACK_DATA_DIR]."`
}

func (c *downCmd) Run(s *session) error {
	settings := clientFlags{DataDir: c.DataDir}.settings()
	return s.node.Down(s.ctx, settings, func(line string) { fmt.Fprintln(s.Stdout, line) })
}
