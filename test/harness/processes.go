package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Process is one of a data directory: the server, a shim, a VMM or a stage
// between them.
type Process struct {
	PID  int
	Args []string
}

func (p Process) String() string { return fmt.Sprintf("%d %.200s", p.PID, strings.Join(p.Args, " ")) }

// IsVMM says whether it is a virtual machine's.
func (p Process) IsVMM() bool { return len(p.Args) > 0 && strings.Contains(p.Args[0], "qemu-system") }

// IsShim says whether it is the process beside a virtual machine.
func (p Process) IsShim() bool { return len(p.Args) > 1 && p.Args[1] == "shim" }

// Processes finds those that name the data directory or have a file of it open.
// One that has ended and was not waited for by its parent counts not.
func Processes(dir string) []Process {
	names, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well-formed
	var all []Process
	for _, name := range names {
		pid, _ := strconv.Atoi(filepath.Base(name))
		text, err := os.ReadFile(name + "/cmdline")
		if err != nil || len(text) == 0 || pid == os.Getpid() {
			continue
		}
		args := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
		named := slices.ContainsFunc(args, func(a string) bool { return a == dir || strings.Contains(a, dir+"/") })
		if named || slices.ContainsFunc(files(pid), func(f string) bool { return strings.HasPrefix(f, dir+"/") }) {
			all = append(all, Process{pid, args})
		}
	}
	return all
}

// files lists what a process has open.
func files(pid int) []string {
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // the pattern is well-formed
	var all []string
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil {
			all = append(all, target)
		}
	}
	return all
}

// Shim gives the process beside a sandbox's machine, and VMM the machine's own.
func (s *Server) Shim(t testing.TB, id string) Process {
	t.Helper()
	return s.process(t, id, "shim", Process.IsShim)
}

// VMM gives the process of a sandbox's machine.
func (s *Server) VMM(t testing.TB, id string) Process {
	t.Helper()
	return s.process(t, id, "VMM", Process.IsVMM)
}

func (s *Server) process(t testing.TB, id, what string, is func(Process) bool) Process {
	t.Helper()
	for _, p := range Processes(s.Dir) {
		if is(p) && strings.Contains(strings.Join(p.Args, " "), id) {
			return p
		}
	}
	t.Fatalf("sandbox %s has no %s process", id, what)
	return Process{}
}

// Usage is what a server holds of the host.
type Usage struct {
	FDs    int
	Memfds int
	Shared int64 // bytes in memfds
}

// Usage looks at the server process.
func (s *Server) Usage(t testing.TB) Usage {
	t.Helper()
	var u Usage
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		path := fmt.Sprintf("/proc/%d/fd/%s", s.PID(), fd.Name())
		target, err := os.Readlink(path)
		if err != nil {
			continue // closed meanwhile
		}
		u.FDs++
		var info syscall.Stat_t
		if strings.HasPrefix(target, "/memfd:") && syscall.Stat(path, &info) == nil {
			u.Memfds++
			u.Shared += info.Blocks * 512
		}
	}
	return u
}
