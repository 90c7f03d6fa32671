package template

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// bzImage packs payload the way the kernel's build does.
func bzImage(t *testing.T, payload []byte) []byte {
	t.Helper()
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	packed := binary.LittleEndian.AppendUint32(enc.EncodeAll(payload, nil), uint32(len(payload)))
	const sectors, offset = 3, 64
	image := make([]byte, (sectors+1)*512+offset, 4096)
	image[0x1f1] = sectors
	copy(image[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(image[0x206:], 0x20f)
	binary.LittleEndian.PutUint32(image[0x248:], offset)
	binary.LittleEndian.PutUint32(image[0x24c:], uint32(len(packed)))
	return append(append(image, packed...), "what follows the payload"...)
}

func TestExtractVmlinux(t *testing.T) {
	want := []byte("\x7fELF" + strings.Repeat("kernel", 1000))
	got, err := extractVmlinux(bzImage(t, want))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, want %d", len(got), len(want))
	}
}

func TestExtractVmlinuxRefuses(t *testing.T) {
	whole := bzImage(t, []byte("\x7fELF kernel"))
	change := func(at int, b ...byte) []byte {
		out := bytes.Clone(whole)
		copy(out[at:], b)
		return out
	}
	tests := map[string][]byte{
		"not a bzImage":     change(0x202, 'X'),
		"too old":           change(0x206, 2, 2),
		"outside the file":  change(0x24c, 0xff, 0xff, 0xff, 0x7f),
		"zstd":              change(4*512+64, 'g', 'z'),
		"no ELF file":       bzImage(t, []byte("MZ kernel")),
		"not a bzImage ":    whole[:100],
		"outside the file ": whole[:4*512+70],
	}
	for want, image := range tests {
		_, err := extractVmlinux(image)
		if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("err = %v, want %q", err, want)
		}
	}
}

// koFile is an object file with nothing but a .modinfo section.
func koFile(modinfo string) []byte {
	names := "\x00.modinfo\x00.shstrtab\x00"
	var b bytes.Buffer
	le := func(v any) { binary.Write(&b, binary.LittleEndian, v) }
	b.WriteString("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9))
	sections := uint64(64 + len(modinfo) + len(names))
	le([]uint16{1, 62})
	le(uint32(1))
	le([]uint64{0, 0, sections})
	le(uint32(0))
	le([]uint16{64, 0, 0, 64, 3, 2})
	b.WriteString(modinfo + names)
	b.Write(make([]byte, 64))
	section := func(name, kind uint32, offset, size int) {
		le([]uint32{name, kind})
		le([]uint64{0, 0, uint64(offset), uint64(size)})
		le([]uint32{0, 0})
		le([]uint64{1, 0})
	}
	section(1, 1, 64, len(modinfo))
	section(10, 3, 64+len(modinfo), len(names))
	return b.Bytes()
}

func writeXZ(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := xz.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWriteModulesPutsDependenciesFirst(t *testing.T) {
	tree, out := t.TempDir(), filepath.Join(t.TempDir(), "modules")
	for name, modinfo := range map[string]string{
		"drivers/virtio_net":                      "license=GPL\x00depends=net_failover\x00",
		"net/net-failover":                        "depends=failover\x00",
		"net/failover":                            "depends=\x00",
		"vsock/vsock":                             "name=vsock\x00",
		"vsock/vmw_vsock_virtio_transport":        "depends=vmw_vsock_virtio_transport_common,vsock\x00",
		"vsock/vmw_vsock_virtio_transport_common": "depends=vsock\x00",
		"unwanted":                                "depends=\x00",
	} {
		writeXZ(t, filepath.Join(tree, name+".ko.xz"), koFile(modinfo))
	}
	if err := writeModules(tree, out); err != nil {
		t.Fatal(err)
	}
	order, err := os.ReadFile(filepath.Join(out, "order"))
	if err != nil {
		t.Fatal(err)
	}
	want := "failover.ko net_failover.ko virtio_net.ko vsock.ko vmw_vsock_virtio_transport_common.ko vmw_vsock_virtio_transport.ko"
	if got := strings.Join(strings.Fields(string(order)), " "); got != want {
		t.Errorf("order\n %s\nwant\n %s", got, want)
	}
	for _, name := range strings.Fields(want) {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestWriteModulesRefusesEmptyPackage(t *testing.T) {
	if err := writeModules(t.TempDir(), filepath.Join(t.TempDir(), "m")); err == nil {
		t.Error("a package without modules is accepted")
	}
}

func TestAptOutput(t *testing.T) {
	if p, ok := dlstatus("dlstatus:3:57.1429:Retrieving file 3 of 12 (1min remaining)"); !ok || p != 57 {
		t.Errorf("dlstatus = %d, %v; want 57", p, ok)
	}
	for _, line := range []string{"", "pmstatus:a:50:x", "dlstatus:1", "dlstatus:1:x:y"} {
		if _, ok := dlstatus(line); ok {
			t.Errorf("dlstatus(%q) is taken for progress", line)
		}
	}
	show := "Package: linux-image-cloud-amd64\nDepends: linux-image-6.12.118+deb13-cloud-amd64 (= 6.12.118-1)\n"
	if m := kernelPattern.FindStringSubmatch(show); m == nil || m[1] != "linux-image-6.12.118+deb13-cloud-amd64" {
		t.Errorf("kernel = %q", m)
	}
	dump := "Acquire \"\";\nAcquire::http::Proxy \"http://proxy:3128\";\nAcquire::IndexTargets::deb \"\";\nAPT::Update::Post-Invoke:: \"x\";\n"
	if got := acquirePattern.FindAllString(dump, -1); len(got) != 1 || got[0] != `Acquire::http::Proxy "http://proxy:3128";` {
		t.Errorf("host's way to the mirror = %q", got)
	}
}
