package boot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pandastack/internal/guest/resume"
)

const (
	base    = "/base"  // the read-only image all machines share
	upper   = "/upper" // this machine's own disk
	newRoot = "/root.new"

	noExec    = unix.MS_NOSUID | unix.MS_NOEXEC | unix.MS_NODEV
	diskLimit = 10 * time.Second
	diskPoll  = 2 * time.Millisecond
)

// mount makes the mount point too.
func mount(source, target, kind string, flags uintptr, options string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, target, kind, flags, options); err != nil {
		return fmt.Errorf("mount %s on %s: %w", kind, target, err)
	}
	return nil
}

// mountKernel mounts what the kernel shows of itself. Console has mounted /dev.
func mountKernel() error {
	return errors.Join(
		mount("proc", "/proc", "proc", noExec, ""),
		mount("sysfs", "/sys", "sysfs", noExec, ""),
		mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "gid=5,mode=620,ptmxmode=666"),
		mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"),
		mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"),
	)
}

func awaitDisks() error {
	deadline := time.Now().Add(diskLimit)
	for _, disk := range []string{"/dev/vda", "/dev/vdb"} {
		for {
			if _, err := os.Stat(disk); err == nil {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("%s did not appear within %s", disk, diskLimit)
			}
			time.Sleep(diskPoll)
		}
	}
	return nil
}

// mountRoot joins both disks. The overlay is never volatile: what was fsynced
// must be there after the machine was killed.
func mountRoot() error {
	if err := mount("/dev/vda", base, "ext4", unix.MS_RDONLY, ""); err != nil {
		return err
	}
	if err := mount("/dev/vdb", upper, "ext4", 0, ""); err != nil {
		return err
	}
	for _, dir := range []string{upper + "/root", upper + "/work"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	options := "lowerdir=" + base + ",upperdir=" + upper + "/root,workdir=" + upper + "/work"
	return mount("overlay", newRoot, "overlay", 0, options)
}

// switchRoot makes the overlay the root. The initrd's file system cannot be
// unmounted, so the new root is moved over it and its files are deleted.
func switchRoot() error {
	for _, dir := range []string{"/proc", "/sys", "/dev", "/run"} {
		target := newRoot + dir
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(dir, target, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s: %w", dir, err)
		}
	}
	if err := errors.Join(os.RemoveAll("/modules"), os.RemoveAll("/python")); err != nil {
		return err
	}
	if err := os.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return os.NewSyscallError("chroot", err)
	}
	return os.Chdir("/")
}

// completeDevices adds the names that programs expect and devtmpfs leaves out.
func completeDevices() error {
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, "/dev/"+name); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

func makeFolders() error {
	for dir, mode := range map[string]os.FileMode{
		Workspace: 0o755, "/root": 0o700, "/tmp": 0o777 | os.ModeSticky, "/var/tmp": 0o777 | os.ModeSticky,
	} {
		if _, err := os.Stat(dir); err == nil {
			continue
		}
		if err := errors.Join(os.MkdirAll(dir, mode.Perm()), os.Chmod(dir, mode)); err != nil {
			return err
		}
	}
	return linkMachineID()
}

// linkMachineID lets /etc/machine-id lead to the file that resume writes.
func linkMachineID() error {
	const path = "/etc/machine-id"
	if target, err := os.Readlink(path); err == nil && target == resume.MachineIDFile {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(resume.MachineIDFile, path)
}

// copyTree copies a folder of the initrd, which goes away. One that is not
// there is left out.
func copyTree(from, to string) error {
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.CopyFS(to, os.DirFS(from))
}

// loopbackUp does what `ip link set lo up` does.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer func() { _ = unix.Close(fd) }()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(request))); errno != 0 {
		return os.NewSyscallError("SIOCSIFFLAGS", errno)
	}
	return nil
}
