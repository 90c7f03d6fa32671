// Package boot turns the initrd's init into the first process of a complete
// system: modules, disks, the overlay root, the network's loopback, groups.
package boot

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pandastack/internal/guest/cgroup"
)

// Where things are once the system is up.
const (
	Workspace = "/workspace"
	Python    = "/run/pandastack/python"
)

// System is what boot has made.
type System struct {
	Parameters map[string]string // pandastack.* of the kernel's command line, without the prefix
	Groups     *cgroup.Tree
}

type step struct {
	name string
	do   func() error
}

// Run does all steps and reports each one, with its time, on console. After an
// error the machine is of no use; call PowerOff.
func Run(console io.Writer) (*System, error) {
	s := &System{}
	begun := time.Now()
	steps := []step{
		{"mounts", mountKernel},
		{"parameters", s.readParameters},
		{"modules", func() error { return loadModules("/modules") }},
		{"disks", awaitDisks},
		{"root", mountRoot},
		{"python", func() error { return copyTree("/python", Python) }},
		{"switch", switchRoot},
		{"devices", completeDevices},
		{"folders", makeFolders},
		{"loopback", loopbackUp},
		{"hostname", func() error { return os.NewSyscallError("sethostname", unix.Sethostname([]byte("pandastack"))) }},
		{"limits", raiseLimits},
		{"groups", s.makeGroups},
	}
	for _, step := range steps {
		at := time.Now()
		if err := step.do(); err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
		report(console, step.name, time.Since(at))
	}
	report(console, "all", time.Since(begun))
	return s, nil
}

func report(console io.Writer, name string, took time.Duration) {
	_, _ = fmt.Fprintf(console, "pandastack-guest: boot: %s %.1f ms\n", name, float64(took.Microseconds())/1000)
}

// PowerOff ends the machine. It does not return.
func PowerOff() {
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	os.Exit(1) // the end of init is the kernel's panic, which ends the machine too
}

// Console makes the console this process's standard streams.
func Console() (*os.File, error) {
	_ = os.Mkdir("/dev", 0o755)
	err := unix.Mount("devtmpfs", "/dev", "devtmpfs", unix.MS_NOSUID, "mode=755")
	if err != nil && !errors.Is(err, unix.EBUSY) {
		return nil, os.NewSyscallError("mount /dev", err)
	}
	f, err := os.OpenFile("/dev/console", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	for fd := range 3 {
		if err := unix.Dup3(int(f.Fd()), fd, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return nil, os.NewSyscallError("dup3", err)
		}
	}
	return f, nil
}

func (s *System) readParameters() error {
	b, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	s.Parameters = parameters(string(b))
	return nil
}

func parameters(cmdline string) map[string]string {
	found := map[string]string{}
	for word := range strings.FieldsSeq(cmdline) {
		if p, ok := strings.CutPrefix(word, "pandastack."); ok {
			key, value, _ := strings.Cut(p, "=")
			found[key] = value
		}
	}
	return found
}

// loadModules loads what the file order in dir lists, in that order.
func loadModules(dir string) error {
	order, err := os.ReadFile(filepath.Join(dir, "order"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // the kernel has everything built in
	}
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(order)) {
		if err := loadModule(filepath.Join(dir, filepath.Base(name))); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return os.NewSyscallError("finit_module", err)
	}
	return nil
}

// raiseLimits gives user processes room for files.
func raiseLimits() error {
	limit := unix.Rlimit{Cur: 65536, Max: 1 << 20}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return os.NewSyscallError("setrlimit", err)
	}
	return os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0)
}

// agentShare is the memory that user processes leave to kernel and agent.
const agentShare = 96 << 20

func (s *System) makeGroups() error {
	if err := mount("cgroup2", "/sys/fs/cgroup", "cgroup2", noExec, ""); err != nil {
		return err
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return os.NewSyscallError("sysinfo", err)
	}
	total := int64(info.Totalram) * int64(info.Unit)
	limits := cgroup.Limits{Memory: max(total-agentShare, total/2), PIDs: 8192}
	var err error
	s.Groups, err = cgroup.New("/sys/fs/cgroup", "user", limits)
	return err
}
