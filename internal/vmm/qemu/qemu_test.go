package qemu

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"pandastack/internal/panda"
	"pandastack/internal/vmm"
)

func TestParseVersion(t *testing.T) {
	for _, tc := range []struct{ out, want, err string }{
		{"QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright", "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)", ""},
		{"QEMU emulator version 10.0.3\n", "10.0.3", ""},
		{"QEMU emulator version 5.2.0 (Debian)\n", "", "too old"},
		{"QEMU emulator version 7.1.0\n", "", "too old"},
		{"something else", "", "unknown version"},
		{"version x.y", "", "unknown version"},
	} {
		got, err := parseVersion(tc.out)
		if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("parseVersion(%q) = %q, %v, want %q, %q", tc.out, got, err, tc.want, tc.err)
		}
	}
}

func TestWithoutQEMUOnPathTheErrorSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := (&Driver{}).Capabilities(t.Context())
	var e *panda.Error
	if !errors.As(err, &e) || e.Code != "host.no_vmm" {
		t.Errorf("Capabilities = %v, want a panda.Error host.no_vmm", err)
	}
}

func TestArgumentsAreTheABI(t *testing.T) {
	spec := vmm.Spec{ID: "one", CPUs: 1, MemoryMB: 512, Accelerator: "tcg", CPUModel: "max", Cmdline: "console=ttyS0"}
	boot, files := arguments(spec, sockets{})
	if len(files) != 10 {
		t.Errorf("a booting machine inherits %d files, want 10", len(files))
	}
	line := strings.Join(boot, " ")
	for _, want := range []string{
		"-name pandastack-one", "share=off", "merge=off,dump=off", "tb-size=64", "spawn=deny",
		"x-option-roms=on,rtc=on", "name=agent", "name=events", "virtio-rng-device", "-netdev stream",
	} {
		if !strings.Contains(line, want) {
			t.Errorf("the arguments lack %q: %s", want, line)
		}
	}
	if strings.Contains(line, "-incoming") {
		t.Error("a machine without state waits for one")
	}
	spec.State = os.Stdin
	spec.Upper.Overlay = os.Stdin
	if line = strings.Join(first(arguments(spec, sockets{})), " "); !strings.Contains(line, "-incoming defer -S") || !strings.Contains(line, "driver=qcow2") {
		t.Errorf("a restored machine's arguments: %s", line)
	}
}

func first(args []string, _ []*os.File) []string { return args }

func TestParseMapping(t *testing.T) {
	start, end, ok := parseMapping("7f1c00000000-7f1c20000000 rw-p 00000000 00:01 2056 /memfd:pandastack (deleted)")
	if !ok || end-start != 512<<20 {
		t.Errorf("parseMapping = %x, %x, %v", start, end, ok)
	}
	for _, line := range []string{"", "7f1c00000000-7f1c20000000 rw-p 00000000 00:01 2056", "x-y rw-p 0 0:0 1 /memfd:pandastack", "1-2 r 0 0:0 1 /memfd:other"} {
		if _, _, ok := parseMapping(line); ok {
			t.Errorf("parseMapping(%q) succeeded", line)
		}
	}
}

func TestKeyDoesNotDependOnOneMachine(t *testing.T) {
	ctx := context.Background()
	d := &Driver{caps: &vmm.Capabilities{VMM: "qemu", Version: "7.2", Accelerator: "tcg", CPUModel: "max"}}
	a, err := d.Key(ctx, 1, 1024)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := d.Key(ctx, 1, 2048)
	a.TSCKHz, b.TSCKHz = 2_000_000, 2_000_100
	if err := a.Fits(a); err != nil {
		t.Errorf("a key does not fit itself: %v", err)
	}
	if err := a.Fits(b); err == nil || !strings.Contains(err.Error(), "memory") {
		t.Errorf("keys of 1024 and 2048 MB: %v, want an error that names the memory", err)
	}
	c := a
	c.TSCKHz += 150 // 75 ppm
	if err := a.Fits(c); err != nil {
		t.Errorf("75 ppm off: %v", err)
	}
	c.TSCKHz += 150
	if err := a.Fits(c); panda.CodeOf(err) != "snapshot.host_mismatch" {
		t.Errorf("150 ppm off: %v, want snapshot.host_mismatch", err)
	}
}
