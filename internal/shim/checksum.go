package shim

import (
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is a file's CRC-32C, in hex. It finds what a disk has lost or turned,
// not what somebody forged.
func Checksum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := crc32.New(castagnoli)
	if _, err := io.CopyBuffer(struct{ io.Writer }{sum}, f, make([]byte, 1<<20)); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return fmt.Sprintf("%08x", sum.Sum32()), nil
}
