// Package jail runs one program confined: own PID, mount, network, IPC and UTS
// namespaces, a private root, an unprivileged uid, no new privileges and
// resource limits. It works by re-executing the calling binary as a small
// stage between clone and exec, so that binary's main must call Main when its
// first argument is Command.
package jail

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Command is the first argument of the stage.
const Command = "jail"

// Config is one confined program. Its files are inherited descriptors; of the
// host's file system it sees Root and nothing else.
type Config struct {
	// Confine turns on namespaces, root and uid, which need root. Without it
	// only NoNewPrivs and the limits apply.
	Confine bool
	Root    string // bound read-only as /; made by BuildRoot
	Mount   string // an empty folder to build the root on
	UID     int
	GID     int
	Devices []string // host device files that the program may use, below /dev
	Limits  []Limit
	// SmallPages keeps the program from huge pages, also where it asks for them.
	SmallPages bool
	Argv       []string
	Env        []string
}

// Limit is one resource limit, soft and hard.
type Limit struct {
	Resource int
	Value    uint64
}

// Cmd gives the command that runs cfg, with files as its descriptors from 3
// on. The caller sets its output and starts it.
func Cmd(cfg Config, files []*os.File) (*exec.Cmd, error) {
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/proc/self/exe", append([]string{Command, string(text), "--"}, cfg.Argv...)...)
	cmd.Env = []string{"GOMAXPROCS=1", "GOGC=off"}
	cmd.ExtraFiles = files
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if cfg.Confine {
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	}
	return cmd, nil
}

// Main is the stage: it confines itself and becomes the program. It returns
// only on failure.
func Main(args []string) error {
	runtime.LockOSThread()
	if len(args) == 0 {
		return fmt.Errorf("jail: no configuration")
	}
	var cfg Config
	if err := json.Unmarshal([]byte(args[0]), &cfg); err != nil {
		return fmt.Errorf("jail: configuration: %w", err)
	}
	if cfg.Confine {
		if err := enterRoot(cfg); err != nil {
			return err
		}
	}
	for _, l := range cfg.Limits {
		if err := unix.Setrlimit(l.Resource, &unix.Rlimit{Cur: l.Value, Max: l.Value}); err != nil {
			return fmt.Errorf("jail: limit %d: %w", l.Resource, err)
		}
	}
	if cfg.Confine {
		if err := dropUser(cfg); err != nil {
			return err
		}
	}
	if cfg.SmallPages {
		_ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0) // without it the program takes more memory
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("jail: no_new_privs: %w", err)
	}
	return fmt.Errorf("jail: exec %s: %w", cfg.Argv[0], unix.Exec(cfg.Argv[0], cfg.Argv, cfg.Env))
}

// enterRoot makes cfg.Root the root of this mount namespace, read-only, with a
// /proc that shows this PID namespace's processes and nothing of the kernel.
func enterRoot(cfg Config) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("jail: make mounts private: %w", err)
	}
	if err := unix.Mount(cfg.Root, cfg.Mount, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("jail: bind %s: %w", cfg.Root, err)
	}
	const ro = unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV
	if err := unix.Mount("", cfg.Mount, "", ro, ""); err != nil {
		return fmt.Errorf("jail: make the root read-only: %w", err)
	}
	if err := makeDevices(cfg); err != nil {
		return err
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	proc := filepath.Join(cfg.Mount, "proc")
	if err := unix.Mount("proc", proc, "proc", flags, "subset=pid,hidepid=2"); err != nil {
		return fmt.Errorf("jail: mount proc: %w", err)
	}
	if err := unix.Chdir(cfg.Mount); err != nil {
		return fmt.Errorf("jail: enter the root: %w", err)
	}
	// With the same folder twice the old root is stacked on the new one and can be detached at once.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("jail: pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("jail: detach the old root: %w", err)
	}
	return unix.Chdir("/")
}

// makeDevices gives the root a /dev of its own with nothing but cfg.Devices,
// which belong to the program's user.
func makeDevices(cfg Config) error {
	dev := filepath.Join(cfg.Mount, "dev")
	const flags = unix.MS_NOSUID | unix.MS_NOEXEC
	if err := unix.Mount("dev", dev, "tmpfs", flags, "mode=755,size=4k"); err != nil {
		return fmt.Errorf("jail: mount /dev: %w", err)
	}
	for _, path := range cfg.Devices {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			return fmt.Errorf("jail: device %s: %w", path, err)
		}
		node := filepath.Join(dev, filepath.Base(path))
		if err := unix.Mknod(node, unix.S_IFCHR|0o600, int(st.Rdev)); err != nil {
			return fmt.Errorf("jail: make device %s: %w", path, err)
		}
		if err := os.Chown(node, cfg.UID, cfg.GID); err != nil {
			return fmt.Errorf("jail: device %s: %w", path, err)
		}
	}
	if err := unix.Mount("", dev, "", unix.MS_REMOUNT|unix.MS_RDONLY|flags, ""); err != nil {
		return fmt.Errorf("jail: make /dev read-only: %w", err)
	}
	return nil
}

func dropUser(cfg Config) error {
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("jail: drop groups: %w", err)
	}
	if err := syscall.Setresgid(cfg.GID, cfg.GID, cfg.GID); err != nil {
		return fmt.Errorf("jail: set gid: %w", err)
	}
	if err := syscall.Setresuid(cfg.UID, cfg.UID, cfg.UID); err != nil {
		return fmt.Errorf("jail: set uid: %w", err)
	}
	return nil
}
