package template

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"pandastack/internal/kit/sparse"
)

// buildEpoch is the time given to what the build makes, so that it does not
// depend on when that was.
var buildEpoch = time.Unix(1735689600, 0) // 2025-01-01

const (
	blockSize = 4096
	inodeSize = 256
)

// image writes the root file system to base.ext4.
func (b *build) image(ctx context.Context) error {
	blocks, inodes, err := measure(b.rootfs())
	if err != nil {
		return err
	}
	path := b.out("base.ext4")
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	// Inode tables, group descriptors and the directories' slack come on top.
	size := (blocks+inodes*inodeSize/blockSize)*blockSize*103/100 + 16<<20
	size = (size + 1<<20 - 1) &^ (1<<20 - 1)
	if err := createSparse(path, size); err != nil {
		return err
	}
	c := command{
		argv: []string{
			"mke2fs", "-q", "-F", "-t", "ext4", "-d", b.rootfs(), "-b", strconv.Itoa(blockSize), "-I", strconv.Itoa(inodeSize),
			"-N", strconv.FormatInt(inodes+1024, 10), "-m", "0", "-L", "pandastack", "-U", diskUUID,
			"-O", "^has_journal,^resize_inode,^metadata_csum_seed",
			"-E", "hash_seed=" + diskUUID + ",lazy_itable_init=0,nodiscard,root_owner=0:0", path,
		},
		// The first is what mke2fs up to 1.47.0 reads, the second what came after.
		env: []string{fmt.Sprintf("E2FSPROGS_FAKE_TIME=%d", buildEpoch.Unix()), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", buildEpoch.Unix())},
	}
	if err := c.run(ctx, b.log); err != nil {
		return err
	}
	return sparse.Punch(path)
}

// diskUUID is the same for every image: guests find disks by their order.
const diskUUID = "70616e64-6173-4461-8b00-626173650001"

// measure counts the data blocks and inodes a tree needs.
func measure(root string) (blocks, inodes int64, err error) {
	err = filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		inodes++
		switch {
		case fi.Mode().IsRegular():
			blocks += (fi.Size() + blockSize - 1) / blockSize
		case fi.IsDir():
			blocks += max(1, (fi.Size()+blockSize-1)/blockSize)
		}
		return nil
	})
	return blocks, inodes, err
}

func createSparse(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// setTimes gives everything below root one modification time.
func setTimes(root string, t time.Time) error {
	tv := []syscall.Timeval{syscall.NsecToTimeval(t.UnixNano()), syscall.NsecToTimeval(t.UnixNano())}
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		return syscall.Utimes(p, tv)
	})
}

// ignoreExit drops the error of a program that ended with the given code.
func ignoreExit(err error, code int) error {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == code {
		return nil
	}
	return err
}

// sizes measures what the build made.
func (b *build) sizes() (ImageSizes, error) {
	var s ImageSizes
	base, err := os.Stat(b.out("base.ext4"))
	if err != nil {
		return s, err
	}
	kernel, err := os.Stat(b.out("vmlinux"))
	if err != nil {
		return s, err
	}
	s.Base, s.Kernel = base.Size(), kernel.Size()
	if st, ok := base.Sys().(*syscall.Stat_t); ok {
		s.Allocated = st.Blocks * 512
	}
	err = filepath.WalkDir(b.out("modules"), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		fi, err := d.Info()
		if err == nil {
			s.Modules += fi.Size()
		}
		return err
	})
	return s, err
}
