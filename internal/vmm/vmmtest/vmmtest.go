// Package vmmtest is the suite that every VMM driver passes, with real
// machines that run the guest agent.
package vmmtest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pandastack/internal/guestproto"
	"pandastack/internal/memimage"
	"pandastack/internal/vmm"
)

// Fixture is what a suite runs with. Paths are of a built template; Upper is a
// raw ext4 that is copied for each machine.
type Fixture struct {
	Driver                      vmm.Driver
	Kernel, Initrd, Base, Upper string
	Cmdline                     string
	MemoryMB                    int
	Jail                        vmm.Jail
}

// startDeadline is generous: an emulated boot takes seconds, on a loaded machine many.
const startDeadline = 3 * time.Minute

// Run runs the suite.
func Run(t *testing.T, f Fixture) {
	t.Run("boots, stops, goes on", f.testStopCont)
	t.Run("restores a saved machine twice, independently", f.testSaveRestore)
	t.Run("leaves nothing behind a killed machine", f.testKill)
	t.Run("leaves nothing behind a failed start", f.testFailedStart)
}

// running is a machine and its agent.
type running struct {
	vmm.Machine
	guest  *guestproto.Client
	memory *os.File
	dir    string
}

// boot starts a fresh machine on shared memory.
func (f Fixture) boot(t *testing.T) *running {
	t.Helper()
	memory, err := memimage.New(vmm.MemoryName, int64(f.MemoryMB)<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	dir := t.TempDir()
	upper := filepath.Join(dir, "upper.raw")
	copySparse(t, f.Upper, upper)
	spec := f.spec(t, dir)
	spec.Memory, spec.MemoryShared = memory, true
	spec.Upper = vmm.Upper{Raw: open(t, upper, os.O_RDWR)}
	r := f.start(t, spec)
	r.memory = memory
	return r
}

func (f Fixture) spec(t *testing.T, dir string) vmm.Spec {
	t.Helper()
	caps, err := f.Driver.Capabilities(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return vmm.Spec{
		ID: fmt.Sprintf("test%d", time.Now().UnixNano()), Dir: dir,
		Kernel: open(t, f.Kernel, os.O_RDONLY), Initrd: open(t, f.Initrd, os.O_RDONLY), Cmdline: f.Cmdline,
		CPUs: 1, MemoryMB: f.MemoryMB, Accelerator: caps.Accelerator, CPUModel: caps.CPUModel,
		Base: open(t, f.Base, os.O_RDONLY), Jail: f.Jail,
	}
}

// start starts a machine that the test's end kills, and waits for its agent.
func (f Fixture) start(t *testing.T, spec vmm.Spec) *running {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startDeadline)
	defer cancel()
	m, err := f.Driver.Start(ctx, spec)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	transport := guestproto.Transport(guestproto.NewPort(m.Agent()).Dial)
	r := &running{Machine: m, guest: guestproto.NewClient(transport, "http://guest"), dir: spec.Dir}
	t.Cleanup(func() { r.kill(t, transport) })
	if spec.State != nil {
		if err := m.Cont(ctx); err != nil {
			t.Fatalf("Cont: %v", err)
		}
	}
	if _, err := r.guest.Hello(ctx); err != nil {
		console, _ := os.ReadFile(filepath.Join(spec.Dir, "console.log"))
		t.Fatalf("no hello from the agent: %v\n%s", err, console)
	}
	return r
}

func (r *running) kill(t *testing.T, transport *http.Transport) {
	t.Helper()
	transport.CloseIdleConnections()
	if err := r.Kill(); err != nil {
		t.Errorf("Kill: %v", err)
	}
	<-r.Done()
}

// shell runs a line in the guest and returns what it printed.
func (r *running) shell(t *testing.T, line string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	err := r.guest.Exec(ctx, guestproto.ExecRequest{Shell: line}, func(e guestproto.ExecEvent) error {
		out.Write(e.Data)
		return nil
	})
	if err != nil {
		t.Fatalf("exec %q: %v", line, err)
	}
	return strings.TrimSpace(out.String())
}

func (f Fixture) testStopCont(t *testing.T) {
	m := f.boot(t)
	if got := m.shell(t, "echo up"); got != "up" {
		t.Errorf("the guest printed %q, want up", got)
	}
	for range 2 { // both are fine twice
		if err := m.Stop(t.Context()); err != nil {
			t.Fatalf("Stop: %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := m.guest.Stats(ctx); err == nil {
		t.Error("a stopped machine answered")
	}
	for range 2 {
		if err := m.Cont(t.Context()); err != nil {
			t.Fatalf("Cont: %v", err)
		}
	}
	if got := m.shell(t, "echo again"); got != "again" {
		t.Errorf("after Cont the guest printed %q, want again", got)
	}
	mapping, err := m.Memory()
	if err != nil || mapping.Len != uint64(f.MemoryMB)<<20 {
		t.Errorf("Memory = %+v, %v, want a mapping of %d MB", mapping, err, f.MemoryMB)
	}
}

func (f Fixture) testSaveRestore(t *testing.T) {
	parent := f.boot(t)
	parent.shell(t, "echo kept > /dev/shm/word; echo saved > /workspace/file; sync")
	if err := parent.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	state, err := os.OpenFile(filepath.Join(dir, "state"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.SaveState(t.Context(), state); err != nil {
		t.Fatalf("SaveState: %v", err)
	}
	state.Close()
	image := filepath.Join(dir, "memory.img")
	if err := memimage.Save(parent.memory, image); err != nil {
		t.Fatal(err)
	}
	_ = parent.Kill()
	<-parent.Done()

	sealed, err := memimage.Load(vmm.MemoryName, image)
	if err != nil {
		t.Fatal(err)
	}
	defer sealed.Close()
	before := checksum(t, sealed)
	restore := func() *running {
		dirOf := t.TempDir()
		overlay := filepath.Join(dirOf, "upper.raw")
		copySparse(t, filepath.Join(parent.dir, "upper.raw"), overlay)
		spec := f.spec(t, dirOf)
		spec.Memory, spec.State = sealed, open(t, state.Name(), os.O_RDONLY)
		spec.Upper = vmm.Upper{Raw: open(t, overlay, os.O_RDWR)}
		return f.start(t, spec)
	}
	one, two := restore(), restore()
	one.shell(t, "echo changed > /dev/shm/word; echo changed > /workspace/file; sync")
	if got := two.shell(t, "cat /dev/shm/word /workspace/file"); got != "kept\nsaved" {
		t.Errorf("the second machine has %q, want what was saved", got)
	}
	if after := checksum(t, sealed); after != before {
		t.Error("the sealed memory changed under its machines")
	}
}

func (f Fixture) testKill(t *testing.T) {
	m := f.boot(t)
	pid := m.PID()
	if i, ok := m.Machine.(vmm.Inspector); ok {
		var text strings.Builder
		i.Inspect(t.Context(), &text)
		if !strings.Contains(text.String(), "running") {
			t.Errorf("Inspect does not say that the machine runs:\n%s", text.String())
		}
	}
	if err := m.Kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-m.Done():
	case <-time.After(time.Minute):
		t.Fatal("Done is not closed a minute after Kill")
	}
	if m.Err() == nil {
		t.Error("Err is nil for a killed machine")
	}
	if err := m.Kill(); err != nil {
		t.Errorf("a second Kill: %v", err)
	}
	nothingLeft(t, m.dir, pid)
}

func (f Fixture) testFailedStart(t *testing.T) {
	dir := t.TempDir()
	memory, err := memimage.New(vmm.MemoryName, int64(f.MemoryMB)<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	upper := filepath.Join(dir, "upper.raw")
	copySparse(t, f.Upper, upper)
	garbage := filepath.Join(dir, "state")
	if err := os.WriteFile(garbage, []byte("this is no device state"), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := f.spec(t, dir)
	spec.Memory, spec.State = memory, open(t, garbage, os.O_RDONLY)
	spec.Upper = vmm.Upper{Raw: open(t, upper, os.O_RDWR)}
	if _, err := f.Driver.Start(t.Context(), spec); err == nil {
		t.Fatal("Start with a garbage state succeeded")
	}
	nothingLeft(t, dir, 0)
}

// nothingLeft checks that no mount lies below dir and no process has it or the pid.
func nothingLeft(t *testing.T, dir string, pid int) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), dir) {
		t.Errorf("a mount below %s is left", dir)
	}
	if pid != 0 {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
			t.Errorf("process %d is left", pid)
		}
	}
}
