package memimage

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
)

// Bits of /proc/PID/pagemap.
const (
	bitPresent = 1 << 63
	bitSwapped = 1 << 62 // also while a page is moved, without any swap
	bitFile    = 1 << 61 // or shared
)

// OwnPages calls f with the number of every page of a private mapping that the
// process has of its own, ascending: those it wrote to, in memory or swapped out.
// The process must stand still.
func OwnPages(pid int, start, length uint64, f func(number int64) error) error {
	pagemap, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		return err
	}
	defer pagemap.Close()
	buf := make([]byte, 64<<10) // of 32 MiB
	for at := uint64(0); at < length/page; {
		part := buf[:min(uint64(len(buf)), (length/page-at)*8)]
		if _, err := io.ReadFull(io.NewSectionReader(pagemap, int64((start/page+at)*8), int64(len(part))), part); err != nil {
			return fmt.Errorf("pagemap: %w", err)
		}
		for i := 0; i < len(part); i += 8 {
			bits := binary.LittleEndian.Uint64(part[i:])
			if bits&(bitPresent|bitSwapped) != 0 && bits&bitFile == 0 {
				if err := f(int64(at) + int64(i/8)); err != nil {
					return err
				}
			}
		}
		at += uint64(len(part) / 8)
	}
	return nil
}

// DataPages calls f with the number of every page of a memory that is not a hole.
func DataPages(mem *os.File, f func(number int64) error) error {
	info, err := mem.Stat()
	if err != nil {
		return err
	}
	return eachExtent(mem, info.Size(), func(start, end int64) error {
		for number := start / page; number*page < end; number++ {
			if err := f(number); err != nil {
				return err
			}
		}
		return nil
	})
}
