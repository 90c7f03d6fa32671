package template

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// kernelModules are what the guest needs beyond what Debian's cloud kernel has
// built in: its devices, its root file system and the way to Firecracker's vsock.
// Their dependencies are found by themselves.
var kernelModules = []string{
	"virtio_mmio", "virtio_blk", "virtio_net", "virtio_console", "virtio_rng",
	"ext4", "overlay", "vsock", "vmw_vsock_virtio_transport",
}

// kernel takes the kernel and its modules out of Debian's package into
// vmlinux and modules/, with modules/order saying in which order to load them.
func (b *build) kernel(ctx context.Context) error {
	deb, err := b.apt.downloadKernel(ctx, b.log)
	if err != nil {
		return err
	}
	unpacked := filepath.Join(b.dir, "kernel")
	if err := errors.Join(os.RemoveAll(unpacked), os.RemoveAll(b.out("modules"))); err != nil {
		return err
	}
	if err := (command{argv: []string{"dpkg-deb", "-x", deb, unpacked}}).run(ctx, b.log); err != nil {
		return err
	}
	if err := writeVmlinux(filepath.Join(unpacked, "boot"), b.out("vmlinux")); err != nil {
		return err
	}
	if err := writeModules(unpacked, b.out("modules")); err != nil {
		return err
	}
	p, err := b.debInfo(ctx, deb)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.dir, "kernel.json"), []byte(mustJSON(p)), 0o600); err != nil {
		return err
	}
	return os.RemoveAll(unpacked)
}

// debInfo says what package a .deb is.
func (b *build) debInfo(ctx context.Context, deb string) (DebianPackage, error) {
	var fields []string
	c := command{argv: []string{"dpkg-deb", "-W", "--showformat=${Package} ${Version} ${Architecture}\n", deb}}
	c.onLine = func(line string) { fields = strings.Fields(line) }
	if err := c.run(ctx, b.log); err != nil {
		return DebianPackage{}, err
	}
	if len(fields) != 3 {
		return DebianPackage{}, fmt.Errorf("%s is no package", deb)
	}
	sum, err := hashFile(deb)
	return DebianPackage{Name: fields[0], Version: fields[1], Arch: fields[2], SHA256: sum}, err
}

func writeVmlinux(boot, to string) error {
	found, err := filepath.Glob(filepath.Join(boot, "vmlinuz-*"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("found %d kernels in the package; want 1", len(found))
	}
	image, err := os.ReadFile(found[0])
	if err != nil {
		return err
	}
	vmlinux, err := extractVmlinux(image)
	if err != nil {
		return fmt.Errorf("extract vmlinux from %s: %w", filepath.Base(found[0]), err)
	}
	return os.WriteFile(to, vmlinux, 0o644)
}

// extractVmlinux finds the compressed ELF kernel in a bzImage by its setup
// header (Documentation/arch/x86/boot.rst, protocol 2.08 and later).
func extractVmlinux(image []byte) ([]byte, error) {
	if len(image) < 0x250 || string(image[0x202:0x206]) != "HdrS" {
		return nil, errors.New("not a bzImage")
	}
	if v := binary.LittleEndian.Uint16(image[0x206:]); v < 0x208 {
		return nil, fmt.Errorf("boot protocol %#x is too old", v)
	}
	sectors := int64(image[0x1f1])
	if sectors == 0 {
		sectors = 4
	}
	start := (sectors+1)*512 + int64(binary.LittleEndian.Uint32(image[0x248:]))
	end := start + int64(binary.LittleEndian.Uint32(image[0x24c:]))
	if end > int64(len(image)) || end-start < 8 {
		return nil, errors.New("payload lies outside the file")
	}
	payload := image[start : end-4] // the build appends the unpacked size
	dec, err := zstd.NewReader(bytes.NewReader(payload), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	vmlinux, err := io.ReadAll(dec)
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	if size := binary.LittleEndian.Uint32(image[end-4:]); int64(size) != int64(len(vmlinux)) {
		return nil, fmt.Errorf("unpacked %d bytes; want %d", len(vmlinux), size)
	}
	if !bytes.HasPrefix(vmlinux, []byte(elf.ELFMAG)) {
		return nil, errors.New("payload is no ELF file")
	}
	return vmlinux, nil
}

// writeModules unpacks kernelModules and what they depend on into dir.
func writeModules(unpacked, dir string) error {
	paths, err := findModules(unpacked)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	l := moduleLoader{paths: paths, dir: dir, done: map[string]bool{}}
	for _, name := range kernelModules {
		// A module that is not there is built in; ext4 and the console are.
		if err := l.add(name); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "order"), []byte(strings.Join(l.order, "\n")+"\n"), 0o600)
}

// findModules maps module names to their .ko.xz files.
func findModules(root string) (map[string]string, error) {
	paths := map[string]string{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if base, ok := strings.CutSuffix(filepath.Base(p), ".ko.xz"); ok && err == nil {
			paths[moduleName(base)] = p
		}
		return err
	})
	if err == nil && len(paths) == 0 {
		err = errors.New("the package holds no .ko.xz modules")
	}
	return paths, err
}

// moduleName writes a name the way modinfo does: file names may have dashes.
func moduleName(s string) string { return strings.ReplaceAll(s, "-", "_") }

type moduleLoader struct {
	paths map[string]string
	dir   string
	done  map[string]bool
	order []string
}

// add unpacks a module after those it depends on.
func (l *moduleLoader) add(name string) error {
	from, ok := l.paths[name]
	if !ok || l.done[name] {
		return nil
	}
	l.done[name] = true
	content, err := readXZ(from)
	if err != nil {
		return fmt.Errorf("module %s: %w", name, err)
	}
	depends, err := moduleDepends(content)
	if err != nil {
		return fmt.Errorf("module %s: %w", name, err)
	}
	for _, d := range depends {
		if err := l.add(moduleName(d)); err != nil {
			return err
		}
	}
	l.order = append(l.order, name+".ko")
	return os.WriteFile(filepath.Join(l.dir, name+".ko"), content, 0o600)
}

// moduleDepends reads "depends=" of a module's .modinfo section.
func moduleDepends(ko []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(ko))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, errors.New("has no .modinfo")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for entry := range strings.SplitSeq(string(info), "\x00") {
		if list, ok := strings.CutPrefix(entry, "depends="); ok && list != "" {
			return strings.Split(list, ","), nil
		}
	}
	return nil, nil
}

func readXZ(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := xz.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
