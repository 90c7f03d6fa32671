// Package memimage keeps the memory of machines: as sparse files on disk and
// as memfds while machines use them. A template's image is loaded once per
// node into a memfd that nobody can change any more; every machine maps it
// privately, so clean pages exist once.
package memimage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	chunk = 1 << 20
	page  = 4096
)

// New makes an empty memory of size bytes, named as /proc/PID/maps shows it.
// The caller closes it.
func New(name string, size int64) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if err := f.Truncate(size); err != nil {
		return nil, errors.Join(fmt.Errorf("memfd of %d bytes: %w", size, err), f.Close())
	}
	return f, nil
}

// Load copies the image at path into a memfd and seals it against writing,
// growing, shrinking and further seals. QEMU opens its memory read-write: with
// a plain file one escape would poison the template for all. The caller closes it.
func Load(name, path string) (*os.File, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return nil, err
	}
	mem, err := New(name, info.Size())
	if err != nil {
		return nil, err
	}
	if err := copyData(mem, in, info.Size()); err != nil {
		return nil, errors.Join(fmt.Errorf("load %s: %w", path, err), mem.Close())
	}
	return seal(mem)
}

// Empty makes a sealed memory of zeros. The caller closes it.
func Empty(name string, size int64) (*os.File, error) {
	mem, err := New(name, size)
	if err != nil {
		return nil, err
	}
	return seal(mem)
}

// seal closes mem if it cannot.
func seal(mem *os.File) (*os.File, error) {
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(mem.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, errors.Join(fmt.Errorf("seal: %w", err), mem.Close())
	}
	return mem, nil
}

// Save writes mem to a new file at path, zero pages as holes, and fsyncs it.
// The machine must stand still. On error no file is left.
func Save(mem *os.File, path string) (err error) {
	info, err := mem.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("save %s: %w", path, err), os.Remove(path))
		}
	}()
	err = out.Truncate(info.Size())
	if err == nil {
		err = copyData(out, mem, info.Size())
	}
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// copyData copies the data extents of from into the fresh file to, leaving
// zero pages as holes.
func copyData(to, from *os.File, size int64) error {
	buf := make([]byte, chunk)
	return eachExtent(from, size, func(start, end int64) error { return copyRange(to, from, start, end, buf) })
}

// eachExtent calls f with the ranges of a file that are not holes.
func eachExtent(from *os.File, size int64, f func(start, end int64) error) error {
	for at := int64(0); at < size; {
		start, err := unix.Seek(int(from.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // holes up to the end
		}
		if err != nil {
			return err
		}
		end, err := unix.Seek(int(from.Fd()), start, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if err := f(start, end); err != nil {
			return err
		}
		at = end
	}
	return nil
}

func copyRange(to, from *os.File, start, end int64, buf []byte) error {
	for at := start; at < end; {
		n, err := from.ReadAt(buf[:min(int64(len(buf)), end-at)], at)
		if n == 0 && err != nil {
			if errors.Is(err, io.EOF) {
				return io.ErrUnexpectedEOF
			}
			return err
		}
		if err := writePages(to, buf[:n], at); err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}

// writePages writes the runs of pages that are not zero.
func writePages(to *os.File, data []byte, at int64) error {
	for len(data) > 0 {
		zero, run := leadingRun(data)
		if !zero {
			if _, err := to.WriteAt(data[:run], at); err != nil {
				return err
			}
		}
		data, at = data[run:], at+int64(run)
	}
	return nil
}

var zeroPage [page]byte

// leadingRun gives the length of the run of pages at the start that are all
// zero or all not.
func leadingRun(data []byte) (zero bool, n int) {
	for n < len(data) {
		end := min(n+page, len(data))
		isZero := bytes.Equal(data[n:end], zeroPage[:end-n])
		if n > 0 && isZero != zero {
			break
		}
		zero, n = isZero, end
	}
	return zero, n
}
