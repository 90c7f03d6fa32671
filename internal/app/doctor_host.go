package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// What a node wants of its host.
const (
	wantMemoryMB = 2048 // one template and a few sandboxes
	wantDiskMB   = 8192 // building code-interpreter, and its image
	monitorTime  = 20 * time.Second
)

// monitorCommands are what the shim asks of QEMU.
var monitorCommands = []string{
	"stop", "cont", "query-status", "quit", "xen-save-devices-state", "migrate-incoming", "query-migrate",
	"add-fd", "remove-fd", "getfd", "blockdev-add", "blockdev-snapshot", "block-commit",
}

// monitor asks QEMU itself which commands it knows.
func (p *patient) monitor(ctx context.Context) (string, error) {
	if p.machines == nil {
		return "", errSkipped
	}
	ctx, cancel := context.WithTimeout(ctx, monitorTime)
	defer cancel()
	known, err := queryCommands(ctx, p.machines.caps.Binary)
	if err != nil {
		return "", fmt.Errorf("ask QEMU for its commands: %w", err)
	}
	var missing []string
	for _, c := range monitorCommands {
		if !slices.Contains(known, c) {
			missing = append(missing, c)
		}
	}
	if len(missing) > 0 {
		return "", fmt.Errorf("QEMU lacks %s", strings.Join(missing, ", "))
	}
	return fmt.Sprintf("has the %d commands needed", len(monitorCommands)), nil
}

func queryCommands(ctx context.Context, binary string) (_ []string, err error) {
	cmd := exec.CommandContext(ctx, binary, "-M", "none", "-nodefaults", "-no-user-config", "-display", "none", "-qmp", "stdio")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.Close(), cmd.Wait()) }()
	_, err = io.WriteString(in, `{"execute":"qmp_capabilities"}{"execute":"query-commands","id":"list"}{"execute":"quit"}`+"\n")
	if err != nil {
		return nil, err
	}
	return readCommands(out)
}

func readCommands(r io.Reader) (names []string, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var answer struct {
			ID     string `json:"id"`
			Return []struct {
				Name string `json:"name"`
			} `json:"return"`
		}
		if json.Unmarshal(lines.Bytes(), &answer) != nil || answer.ID != "list" {
			continue // the greeting, or an answer of another shape
		}
		for _, c := range answer.Return {
			names = append(names, c.Name)
		}
	}
	return names, lines.Err()
}

func (p *patient) memory(context.Context) (string, error) {
	available, err := hostMemory()
	if err != nil {
		return "", err
	}
	found := fmt.Sprintf("%d MB available", available>>20)
	if available>>20 < wantMemoryMB {
		return "", &warning{found, fmt.Sprintf("%d MB or more leave room for a few sandboxes", wantMemoryMB)}
	}
	return found, nil
}

// sealedMemory tries what keeps one machine from writing another's memory.
func (p *patient) sealedMemory(context.Context) (string, error) {
	fd, err := unix.MemfdCreate("pandastack-doctor", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return "", fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "memfd")
	defer f.Close()
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return "", fmt.Errorf("seal memory: %w", err)
	}
	if _, err := f.WriteAt([]byte{1}, 0); err == nil {
		return "", errors.New("sealed memory could be written")
	}
	return "sealed memory refuses writes", nil
}

func (p *patient) dataDirectory(context.Context) (string, error) {
	d := dataDir(p.cfg.DataDir)
	if err := d.prepare(); err != nil {
		return "", err
	}
	release, err := d.lock()
	if err != nil {
		return "in use by the server with process " + d.holder(), nil
	}
	return "can be written, no server runs", release()
}

func (p *patient) disk(context.Context) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(p.cfg.DataDir, &st); err != nil {
		return "", fmt.Errorf("%s: %w", p.cfg.DataDir, err)
	}
	freeMB := int64(st.Bavail) * st.Bsize >> 20
	found := fmt.Sprintf("%d MB free", freeMB)
	if freeMB < wantDiskMB {
		return "", &warning{found, fmt.Sprintf("building a template takes up to %d MB", wantDiskMB)}
	}
	return found, nil
}

// fileSystem tries what images rely on: holes.
func (p *patient) fileSystem(context.Context) (string, error) {
	f, err := os.CreateTemp(p.cfg.DataDir, ".doctor-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	const size = 1 << 20
	if _, err := f.Write(make([]byte, size)); err != nil {
		return "", err
	}
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, size); err != nil {
		return "", fmt.Errorf("it cannot punch holes into files, so images would take their full size: %w", err)
	}
	if memoryOnly(f) {
		return "", &warning{"keeps files in memory: sandboxes and templates are gone after a reboot", "choose a folder on a disk with --data-dir"}
	}
	return "has sparse files and holes", nil
}

func memoryOnly(f *os.File) bool {
	var st unix.Statfs_t
	err := unix.Fstatfs(int(f.Fd()), &st)
	return err == nil && (st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC)
}

// buildPrograms are what template builds call.
var buildPrograms = []string{"mmdebstrap", "mke2fs", "qemu-img"}

func (p *patient) programs(context.Context) (string, error) {
	var missing []string
	for _, name := range buildPrograms {
		if _, err := exec.LookPath(name); err != nil {
			if _, err := os.Stat(filepath.Join("/usr/sbin", name)); err != nil {
				missing = append(missing, name)
			}
		}
	}
	if len(missing) > 0 {
		return "", &warning{"not installed: " + strings.Join(missing, ", "), "building templates needs them: apt-get install mmdebstrap e2fsprogs qemu-utils"}
	}
	return strings.Join(buildPrograms, ", "), nil
}
