//go:build vm

package qemu

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pandastack/internal/kit/tsc"
	"pandastack/internal/memimage"
	"pandastack/internal/vmm"
	"pandastack/internal/vmm/vmmtest"
)

// template finds a baked template in the data directory that the test run prepared.
func template(t *testing.T, pattern string) string {
	t.Helper()
	data := os.Getenv("PANDASTACK_TEST_DATA")
	if data == "" {
		t.Fatal("PANDASTACK_TEST_DATA must name a data directory with a built template (see scripts/test.sh)")
	}
	matches, err := filepath.Glob(filepath.Join(data, pattern))
	if err != nil || len(matches) == 0 {
		t.Fatalf("no %s in %s", pattern, data)
	}
	return matches[len(matches)-1]
}

func fixture(t *testing.T) vmmtest.Fixture {
	t.Helper()
	d := &Driver{}
	root, err := d.JailRoot(t.Context(), filepath.Join(t.TempDir(), "jail"))
	if err != nil {
		t.Fatal(err)
	}
	upper := filepath.Join(t.TempDir(), "upper.raw")
	if err := os.Truncate(create(t, upper), 256<<20); err != nil {
		t.Fatal(err)
	}
	mkfs(t, upper)
	return vmmtest.Fixture{
		Driver: d,
		Kernel: template(t, "images/*/vmlinux"), Initrd: template(t, "boot/*/initrd"), Base: template(t, "images/*/base.ext4"),
		Upper: upper, MemoryMB: 512,
		Cmdline: fmt.Sprintf("console=ttyS0 loglevel=4 reboot=t panic=-1 random.trust_cpu=on tsc_early_khz=%d tsc=reliable lpj=4000000", tsc.KHz(20e6)),
		Jail:    vmm.Jail{Enabled: true, Root: root, UID: 2_000_001, GID: 2_000_001},
	}
}

func TestDriver(t *testing.T) { vmmtest.Run(t, fixture(t)) }

// TestJailFromInside makes a running VMM try what an attacker who has taken it
// over would try, by injecting system calls into it.
func TestJailFromInside(t *testing.T) {
	f := fixture(t)
	caps, err := f.Driver.Capabilities(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	memory := sealedMemory(t, f.MemoryMB)
	base, upper := openFile(t, f.Base, os.O_RDONLY), openFile(t, f.Upper, os.O_RDWR)
	m, err := f.Driver.Start(t.Context(), vmm.Spec{
		ID: "injail", Dir: t.TempDir(), Kernel: openFile(t, f.Kernel, os.O_RDONLY), Initrd: openFile(t, f.Initrd, os.O_RDONLY),
		Cmdline: f.Cmdline, CPUs: 1, MemoryMB: f.MemoryMB, Accelerator: caps.Accelerator, CPUModel: caps.CPUModel,
		Base: base, Upper: vmm.Upper{Raw: upper}, Memory: memory, Jail: f.Jail,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Kill(); <-m.Done() }()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	baseFD, memoryFD := fdOf(t, m.PID(), f.Base), fdOf(t, m.PID(), "/memfd:"+vmm.MemoryName)

	in := inject(t, m.PID())
	defer in.detach()
	refused := func(what string, nr uint64, args ...any) {
		t.Helper()
		result, died := in.call(nr, args...)
		if died {
			t.Fatalf("%s: the filter ended the VMM: move this probe to the end", what)
		}
		if result >= 0 {
			t.Errorf("%s: succeeded with %d", what, result)
			return
		}
		t.Logf("%s: %v", what, unix.Errno(-result))
	}
	if pid, _ := in.call(unix.SYS_GETPID); pid != 1 {
		t.Errorf("getpid inside = %d, want 1: another PID namespace", pid)
	}
	if uid, _ := in.call(unix.SYS_GETUID); uid != int64(f.Jail.UID) {
		t.Errorf("getuid inside = %d, want %d", uid, f.Jail.UID)
	}
	refused("write the template's disk", unix.SYS_PWRITE64, baseFD, []byte("x"), 1, 0)
	refused("open the template's disk for writing", unix.SYS_OPEN, fmt.Sprintf("/proc/self/fd/%d", baseFD), unix.O_RDWR, 0)
	refused("write the template's memory", unix.SYS_PWRITE64, memoryFD, []byte("x"), 1, 0)
	refused("shrink the template's memory", unix.SYS_FTRUNCATE, memoryFD, 0)
	refused("see another process", unix.SYS_OPEN, fmt.Sprintf("/proc/%d/status", os.Getpid()), unix.O_RDONLY, 0)
	refused("signal another process", unix.SYS_KILL, os.Getpid(), 0)
	refused("read the host's files", unix.SYS_OPEN, "/etc/passwd", unix.O_RDONLY, 0)
	refused("read the host's kernel settings", unix.SYS_OPEN, "/proc/sys/kernel/hostname", unix.O_RDONLY, 0)
	refused("make a file in its root", unix.SYS_OPEN, "/tmp/x", unix.O_CREAT|unix.O_WRONLY, 0o600)
	refused("change its QEMU", unix.SYS_OPEN, caps.Binary, unix.O_WRONLY, 0)
	if fd, died := in.call(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 0); died || fd < 0 {
		t.Logf("make a socket: refused")
	} else {
		refused("reach the host's network", unix.SYS_CONNECT, int(fd), sockaddr(port), 16)
	}
	for _, last := range []struct {
		what string
		nr   uint64
		args []any
	}{
		{"run a program", unix.SYS_EXECVE, []any{caps.Binary, 0, 0}},
	} {
		result, died := in.call(last.nr, last.args...)
		if !died && result >= 0 {
			t.Errorf("%s: succeeded", last.what)
		}
		t.Logf("%s: ended by the filter: %v, result %d", last.what, died, result)
	}
}

func sealedMemory(t *testing.T, mb int) *os.File {
	t.Helper()
	path := create(t, filepath.Join(t.TempDir(), "memory.img"))
	if err := os.Truncate(path, int64(mb)<<20); err != nil {
		t.Fatal(err)
	}
	f, err := memimage.Load(vmm.MemoryName, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// fdOf finds the descriptor by which a process has a file open.
func fdOf(t *testing.T, pid int, path string) int {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if target, _ := os.Readlink(filepath.Join(dir, e.Name())); strings.HasPrefix(target, path) {
			var fd int
			fmt.Sscan(e.Name(), &fd)
			return fd
		}
	}
	t.Fatalf("process %d does not have %s open", pid, path)
	return 0
}

func openFile(t *testing.T, path string, flag int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
