//go:build vm

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pandastack/test/harness"
)

// TestIsolationSeenFromTheHost looks at two machines' processes.
func TestIsolationSeenFromTheHost(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("the jail needs root, and so does this test")
	}
	s := harness.Start(t, harness.NewDir(t))
	first, second := s.NewSandbox(t), s.NewSandbox(t)
	for _, box := range []string{first.Isolation, second.Isolation} {
		if box != "hardware-vm" && box != "emulated-vm+jail" {
			t.Errorf("isolation is %s", box)
		}
	}
	a, b := s.VMM(t, first.ID).PID, s.VMM(t, second.ID).PID
	for _, pid := range []int{a, b} {
		assertConfined(t, pid)
	}
	if ua, ub := procField(t, a, "Uid"), procField(t, b, "Uid"); ua == ub {
		t.Errorf("both machines are of user %s", ua)
	}
	for _, ns := range namespaces {
		if na := nsOf(t, a, ns); na == nsOf(t, b, ns) || na == nsOf(t, os.Getpid(), ns) {
			t.Errorf("the %s namespace %s is shared", ns, na)
		}
	}
}

var namespaces = []string{"mnt", "pid", "net", "ipc", "uts"}

func nsOf(t *testing.T, pid int, name string) string {
	t.Helper()
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, name))
	if err != nil {
		t.Fatal(err)
	}
	return link
}

// procField gives a line of /proc/PID/status without its name.
func procField(t *testing.T, pid int, name string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	t.Fatalf("/proc/%d/status has no %s", pid, name)
	return ""
}

func assertConfined(t *testing.T, pid int) {
	t.Helper()
	for name, want := range map[string]string{
		"NoNewPrivs": "1", "Seccomp": "2", "Groups": "",
		"CapEff": "0000000000000000", "CapPrm": "0000000000000000", "CapInh": "0000000000000000", "CapAmb": "0000000000000000",
	} {
		if got := procField(t, pid, name); got != want {
			t.Errorf("%s of process %d is %q, want %q", name, pid, got, want)
		}
	}
	for _, name := range []string{"Uid", "Gid"} {
		ids := strings.Fields(procField(t, pid, name))
		if len(ids) != 4 || ids[0] == "0" || ids[0] != ids[1] || ids[0] != ids[2] || ids[0] != ids[3] {
			t.Errorf("%s of process %d is %v, want one unprivileged id", name, pid, ids)
		}
	}
	assertRoot(t, pid)
	if fds := writable(t, pid); len(fds) > 0 {
		t.Errorf("process %d can write %v", pid, fds)
	}
}

// assertRoot wants the VMM's root to have nothing of the host's files but its
// own program, and to be read-only.
func assertRoot(t *testing.T, pid int) {
	t.Helper()
	root := fmt.Sprintf("/proc/%d/root", pid)
	for _, path := range []string{"root", "home", "var", "tmp", "srv", "sys", "run", "bin/sh", "usr/bin/env", "etc/passwd", "etc/shadow", "dev/vda", "dev/kmem"} {
		if _, err := os.Lstat(filepath.Join(root, path)); err == nil {
			t.Errorf("process %d sees /%s", pid, path)
		}
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		point, options := fields[4], fields[5]
		switch {
		case (point == "/" || point == "/dev") && !strings.HasPrefix(options, "ro,"):
			t.Errorf("%s of process %d is mounted %s", point, pid, options)
		case point != "/" && point != "/proc" && point != "/dev":
			t.Errorf("process %d has the mount %s", pid, line)
		}
	}
}

// writable lists files of the host that a process has open for writing, beside
// its own run folder's.
func writable(t *testing.T, pid int) []string {
	t.Helper()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, fd := range fds {
		target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
		info, infoErr := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, fd.Name()))
		if err != nil || infoErr != nil || !strings.HasPrefix(target, "/") || strings.Contains(target, "/runs/") ||
			strings.HasPrefix(target, "/memfd:") || strings.HasPrefix(target, "/dev/") {
			continue
		}
		var pos, flags int64
		if _, err := fmt.Sscanf(string(info), "pos: %d\nflags: %o", &pos, &flags); err != nil {
			t.Fatal(err)
		}
		if flags&int64(os.O_WRONLY|os.O_RDWR) != 0 {
			found = append(found, target)
		}
	}
	return found
}
