package template

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// command is one program of a build step. It runs in a PID and mount namespace
// of its own: when it, or this process, ends for whatever reason, everything
// it started is killed and everything it mounted is gone.
type command struct {
	argv    []string
	env     []string // beyond the host's; with root set, all there is
	dir     string
	root    string // run inside this root file system, with /proc and /dev/shm
	offline bool   // without network
	onLine  func(string)
	// status, if set, receives the lines written to descriptor 3.
	status func(string)
}

// enterRoot mounts what programs expect and becomes the program. $0 is the root.
const enterRoot = `mount -t proc proc "$0/proc" && mount -t tmpfs -o mode=1777 shm "$0/dev/shm" && exec chroot "$0" "$@"`

// rootEnv is the environment of programs inside the root file system.
var rootEnv = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"HOME=/root", "LANG=C.UTF-8", "LC_ALL=C.UTF-8",
}

func (c command) build(ctx context.Context) *exec.Cmd {
	argv := c.argv
	if c.root != "" {
		argv = append([]string{"sh", "-c", enterRoot, c.root}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), c.env...)
	if c.root != "" {
		cmd.Env = append(append([]string{}, rootEnv...), c.env...)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWPID,
		Unshareflags: syscall.CLONE_NEWNS,
		Pdeathsig:    syscall.SIGKILL,
	}
	if c.offline {
		cmd.SysProcAttr.Unshareflags |= syscall.CLONE_NEWNET
	}
	return cmd
}

// run runs c with its output appended to log and returns when all it started
// is gone.
func (c command) run(ctx context.Context, log io.Writer) error {
	// Pdeathsig fires when the starting thread ends, so keep the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fmt.Fprintf(log, "$ %s\n", strings.Join(c.argv, " "))
	cmd := c.build(ctx)
	out := &lineWriter{log: log, onLine: c.onLine}
	cmd.Stdout, cmd.Stderr = out, out
	if c.status == nil {
		return wrapRun(c.argv[0], cmd.Run())
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("run %s: %w", c.argv[0], err)
	}
	defer r.Close()
	cmd.ExtraFiles = []*os.File{w}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return wrapRun(c.argv[0], err)
	}
	for lines := bufio.NewScanner(r); lines.Scan(); {
		c.status(lines.Text())
	}
	return wrapRun(c.argv[0], cmd.Wait())
}

func wrapRun(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("%s is not installed: %w", name, err)
	default:
		return fmt.Errorf("run %s: %w", name, err)
	}
}

// maxLine bytes without a line break count as a line.
const maxLine = 8 << 10

// lineWriter passes bytes to log and whole lines to onLine.
type lineWriter struct {
	log    io.Writer
	onLine func(string)
	rest   []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	n, err := w.log.Write(p)
	if w.onLine == nil {
		return n, err
	}
	w.rest = append(w.rest, p...)
	for {
		i := bytes.IndexByte(w.rest, '\n')
		switch {
		case i >= 0:
			w.onLine(string(w.rest[:i]))
			w.rest = w.rest[i+1:]
		case len(w.rest) > maxLine: // a guest may never end its line
			w.onLine(string(w.rest))
			w.rest = nil
		default:
			return n, err
		}
	}
}
