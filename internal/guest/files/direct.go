package files

import (
	"io"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A large file's bytes go past the page cache, unless they are there already:
// under emulation a new page in it costs about 30 µs, twice what it takes to
// receive that page. They do so in pieces of a huge page, since of scattered
// pages the disk makes two requests, cut within a cluster of its overlay.
const (
	hugePage  = 2 << 20
	blockSize = 4 << 10 // what direct writes are a multiple of
)

// huge is held by the one body that goes past the cache. Others, at the same
// time, take the ordinary way: uploads together need no more memory than that.
var huge sync.Mutex

// copyRest writes what of a body did not fit into buf, a multiple of blockSize.
func copyRest(file *os.File, body io.Reader, buf []byte) error {
	if !huge.TryLock() {
		return copyPieces(file, body, buf)
	}
	defer huge.Unlock()
	big, free, err := hugeBuffer()
	if err != nil {
		return copyPieces(file, body, buf)
	}
	defer free()
	if setDirect(file, true) != nil { // not every file system can
		return copyPieces(file, body, buf)
	}
	return copyPieces(directFile{file}, body, big)
}

// directFile takes pieces of which all but the last are multiples of blockSize.
type directFile struct{ *os.File }

func (f directFile) Write(p []byte) (int, error) {
	whole := len(p) &^ (blockSize - 1)
	n, err := f.File.Write(p[:whole])
	if err != nil || whole == len(p) {
		return n, err
	}
	if err := setDirect(f.File, false); err != nil {
		return n, err
	}
	tail, err := f.File.Write(p[whole:])
	return n + tail, err
}

func setDirect(file *os.File, on bool) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	set := func(fd uintptr) {
		var flags int
		if flags, err = unix.FcntlInt(fd, unix.F_GETFL, 0); err != nil {
			return
		}
		flags &^= unix.O_DIRECT
		if on {
			flags |= unix.O_DIRECT
		}
		_, err = unix.FcntlInt(fd, unix.F_SETFL, flags)
	}
	if cerr := raw.Control(set); cerr != nil {
		return cerr
	}
	return os.NewSyscallError("fcntl", err)
}

// hugeBuffer gives a huge page, or where there is none as many small ones.
func hugeBuffer() (buf []byte, free func(), err error) {
	all, err := unix.Mmap(-1, 0, 2*hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, nil, os.NewSyscallError("mmap", err)
	}
	at := -uintptr(unsafe.Pointer(&all[0])) & (hugePage - 1)
	buf = all[at : at+hugePage : at+hugePage]
	_ = unix.Madvise(buf, unix.MADV_HUGEPAGE) // a kernel without them
	return buf, func() { _ = unix.Munmap(all) }, nil
}

// content is the first size bytes of an open file.
type content struct {
	file *os.File
	size int64
}

func (c *content) Read(p []byte) (int, error) { return c.file.Read(p) }
func (c *content) Close() error               { return c.file.Close() }

// WriteTo moves what Read would, in the way that is best for so much.
func (c *content) WriteTo(w io.Writer) (int64, error) {
	if c.size >= hugePage && !c.cached() && huge.TryLock() {
		defer huge.Unlock()
		if big, free, err := hugeBuffer(); err == nil {
			defer free()
			if setDirect(c.file, true) == nil {
				return c.writeTo(w, big)
			}
		}
	}
	return c.writeTo(w, make([]byte, bufferSize))
}

func (c *content) writeTo(w io.Writer, buf []byte) (n int64, err error) {
	for n < c.size {
		got, err := c.file.Read(buf)
		if got = int(min(int64(got), c.size-n)); got > 0 {
			got, err = w.Write(buf[:got])
			n += int64(got)
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// cached guesses from a page in the middle, which this does not bring in.
func (c *content) cached() (there bool) {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		page, err := unix.Mmap(int(fd), c.size/2&^(blockSize-1), blockSize, unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return
		}
		defer func() { _ = unix.Munmap(page) }()
		var in byte
		_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&page[0])), blockSize, uintptr(unsafe.Pointer(&in)))
		there = errno == 0 && in&1 != 0
	})
	return there
}
