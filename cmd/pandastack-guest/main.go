// Command pandastack-guest is the agent inside a PandaStack microVM. As the
// initrd's init it boots the machine and answers on the virtio-serial port
// "agent"; with --listen-fd it is an ordinary process that answers on a socket,
// which is how it is tested.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"pandastack/internal/guest"
	"pandastack/internal/guest/boot"
	"pandastack/internal/guest/proc"
)

// version is set by the linker.
var version = "dev"

func main() {
	if os.Getpid() == 1 {
		machine()
		return
	}
	if err := process(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pandastack-guest:", err)
		os.Exit(1)
	}
}

// machine is init. It never returns: what it cannot repair ends the machine.
func machine() {
	console, err := boot.Console()
	if err != nil {
		boot.PowerOff()
	}
	system, err := boot.Run(console)
	if err != nil {
		_, _ = fmt.Fprintf(console, "pandastack-guest: boot failed: %v\n", err)
		boot.PowerOff()
	}
	log := logger(console, system.Parameters["log"])
	port, err := guest.OpenPort("agent")
	if err != nil {
		_, _ = fmt.Fprintf(console, "pandastack-guest: boot failed: port: %v\n", err)
		boot.PowerOff()
	}
	venv, python := environment()
	agent := guest.New(guest.Config{
		Version: version, Workspace: boot.Workspace, Python: python, PythonPath: boot.Python,
		Env: proc.Env(venv, "/etc/pandastack/env"), SpillDir: "/var/lib/pandastack/executions",
		Groups: system.Groups, Machine: true, Lane: guest.LanePort("events"), Log: log,
	})
	log.Info("agent listens")
	err = agent.Serve(context.Background(), port)
	log.Error("agent stopped", "error", err)
	boot.PowerOff()
}

func logger(w io.Writer, level string) *slog.Logger {
	l := slog.LevelInfo
	if level == "debug" {
		l = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l}))
}

// environment gives the template's virtual environment and its interpreter;
// both are "" in a template without Python.
func environment() (venv, python string) {
	const place = "/opt/pandastack/venv"
	if _, err := os.Stat(place + "/bin/python"); err != nil {
		return "", ""
	}
	return place, place + "/bin/python"
}

// process answers on an inherited socket until that is closed.
func process(args []string) error {
	flags := flag.NewFlagSet("pandastack-guest", flag.ContinueOnError)
	fd := flags.Int("listen-fd", -1, "descriptor of the socket to answer on")
	root := flags.String("root", "", "folder that holds the workspace")
	interpreter := flags.String("python", "python3", "Python interpreter of the kernels")
	pythonPath := flags.String("python-path", "", "folder that holds pandastack_kernel")
	jupyterPath := flags.String("jupyter-path", "", "folders, between colons, that hold kernels/NAME/kernel.json")
	showVersion := flags.Bool("version", false, "print the version")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *showVersion {
		fmt.Println(version)
		return nil
	}
	if *fd < 0 || *root == "" {
		return fmt.Errorf("outside a machine of its own it needs --listen-fd and --root")
	}
	found, err := exec.LookPath(*interpreter)
	if err != nil {
		return err
	}
	workspace := filepath.Join(*root, "workspace")
	if err := os.MkdirAll(workspace, 0o755); err != nil {
		return err
	}
	if err := unix.SetNonblock(*fd, true); err != nil {
		return os.NewSyscallError("listen-fd", err)
	}
	agent := guest.New(guest.Config{
		Version: version, Workspace: workspace, Python: found, PythonPath: *pythonPath,
		Env: append(proc.Env(filepath.Dir(filepath.Dir(found)), ""), "JUPYTER_PATH="+*jupyterPath), SpillDir: filepath.Join(*root, "executions"), Log: logger(os.Stderr, ""),
	})
	defer agent.Close()
	return agent.Serve(context.Background(), os.NewFile(uintptr(*fd), "agent"))
}
