package template

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
)

// makeUpper makes a template's writable disk: an empty raw ext4 of sizeMB, and
// an empty qcow2 of the same size that is copied for each VM and laid over it.
// The overlay names no backing file: whoever starts a VM says what lies below.
func makeUpper(ctx context.Context, log io.Writer, dir string, sizeMB int) error {
	raw, overlay := upperRaw(dir), upperOverlay(dir)
	if err := createSparse(raw, int64(sizeMB)<<20); err != nil {
		return err
	}
	mkfs := command{argv: []string{
		"mke2fs", "-q", "-F", "-t", "ext4", "-b", strconv.Itoa(blockSize), "-m", "0", "-L", "upper",
		// Without a journal every kill leaves errors; a small one costs little.
		"-J", "size=8",
		// A new sparse file is zero: nothing has to be zeroed now, and the guest's
		// kernel, told so, has no inode tables to initialise in the background.
		"-E", "assume_storage_prezeroed=1,nodiscard,root_owner=0:0", raw,
	}}
	if err := mkfs.run(ctx, log); err != nil {
		return fmt.Errorf("make the writable disk: %w", err)
	}
	seed := command{argv: []string{"qemu-img", "create", "-q", "-f", "qcow2", overlay, strconv.Itoa(sizeMB) + "M"}}
	if err := seed.run(ctx, log); err != nil {
		return fmt.Errorf("make the empty overlay: %w", err)
	}
	return nil
}

func upperRaw(dir string) string     { return filepath.Join(dir, "upper.raw") }
func upperOverlay(dir string) string { return filepath.Join(dir, "upper.qcow2") }
