//go:build vm

package qemu

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

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

	task, err := json.Marshal(probeTask{
		PID: m.PID(), Outside: os.Getpid(), BaseFD: baseFD, MemoryFD: memoryFD, Port: port, Binary: caps.Binary,
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "/proc/self/exe", probeCommand, string(task)).CombinedOutput()
	if err != nil {
		t.Fatalf("the prober failed: %v\n%s", err, out)
	}
	want := map[string]string{"getpid": "1", "getuid": strconv.Itoa(f.Jail.UID)}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, line := range lines {
		t.Log(line)
		what, got, _ := strings.Cut(line, ": ")
		if w := want[what]; w != "" && got != w || w == "" && !strings.HasPrefix(got, "refused") {
			t.Errorf("%s: %s", what, got)
		}
	}
	if len(lines) != 14 {
		t.Errorf("%d probes reported, want 14", len(lines))
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
