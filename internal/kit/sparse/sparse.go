// Package sparse gives back the disk space of zeros.
package sparse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

const (
	seekData = 3
	seekHole = 4
	// FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
	punchHole = 0x1 | 0x2
	chunk     = 64 << 10
	block     = 4096
)

// Punch turns the zero blocks of a file into holes. Its content and size stay
// the same. On a file system without holes it does nothing.
func Punch(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = PunchFile(f)
	return errors.Join(err, f.Close())
}

// PunchFile is Punch on an open file; the file's offset is undefined afterwards.
func PunchFile(f *os.File) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	for at := int64(0); at < fi.Size(); {
		start, end, err := dataRange(f, at)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = punchRange(f, start, end)
		}
		if errors.Is(err, syscall.EOPNOTSUPP) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("punch %s: %w", f.Name(), err)
		}
		at = end
	}
	return nil
}

// dataRange finds the first range with data from at on; io.EOF when there is none.
func dataRange(f *os.File, at int64) (start, end int64, err error) {
	start, err = f.Seek(at, seekData)
	if errors.Is(err, syscall.ENXIO) {
		return 0, 0, io.EOF
	}
	if err != nil {
		return 0, 0, err
	}
	end, err = f.Seek(start, seekHole)
	return start, end, err
}

func punchRange(f *os.File, start, end int64) error {
	start -= start % block
	buf, zero := make([]byte, chunk), make([]byte, block)
	run := start // zeros from run up to the current block
	for at := start; at < end; {
		n, err := f.ReadAt(buf[:min(chunk, end-at)], at)
		if err != nil && !errors.Is(err, io.EOF) || n == 0 {
			return err
		}
		for i := 0; i < n; i += block {
			b := buf[i:min(i+block, n)]
			if bytes.Equal(b, zero[:len(b)]) {
				continue
			}
			if err := punch(f, run, at+int64(i)); err != nil {
				return err
			}
			run = at + int64(i+len(b))
		}
		at += int64(n)
	}
	return punch(f, run, end)
}

func punch(f *os.File, start, end int64) error {
	if end <= start {
		return nil
	}
	return syscall.Fallocate(int(f.Fd()), punchHole, start, end-start)
}
