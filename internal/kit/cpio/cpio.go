// Package cpio writes the "newc" archives that the Linux kernel unpacks as its
// first root file system (Documentation/driver-api/early-userspace/buffer-format.rst).
package cpio

import (
	"fmt"
	"io"
	"path"
	"strings"
)

// File types, as in a stat's mode.
const (
	modeDir  = 0o040000
	modeFile = 0o100000
)

const trailer = "TRAILER!!!"

// Writer writes one archive. Equal calls give equal bytes: owner is root and
// time is zero. An error sticks; Close reports it.
type Writer struct {
	w    io.Writer
	n    int64 // bytes written, for padding
	ino  uint32
	dirs map[string]bool
	err  error
}

// NewWriter returns a Writer on w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w, dirs: map[string]bool{}} }

// Dir adds a folder, and those above it, unless they are there.
func (w *Writer) Dir(name string) {
	name = clean(name)
	if name == "" || w.dirs[name] {
		return
	}
	w.dirs[name] = true
	w.Dir(path.Dir(name))
	w.entry(name, modeDir|0o755, nil)
}

// File adds a regular file, and the folders above it.
func (w *Writer) File(name string, perm uint32, content []byte) {
	name = clean(name)
	w.Dir(path.Dir(name))
	w.entry(name, modeFile|perm&0o7777, content)
}

// Close ends the archive; it does not close the underlying writer.
func (w *Writer) Close() error {
	w.ino = 0 // what other writers give the trailer
	w.header(trailer, 0, 0)
	return w.err
}

func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

func (w *Writer) entry(name string, mode uint32, content []byte) {
	w.ino++
	if int64(len(content)) > 1<<32-1 {
		w.err = fmt.Errorf("cpio: %s is larger than the format can say", name)
	}
	w.header(name, mode, len(content))
	w.write(content)
	w.pad()
}

func (w *Writer) header(name string, mode uint32, size int) {
	// magic, ino, mode, uid, gid, nlink, mtime, filesize, dev, rdev (two each), namesize, check
	w.write(fmt.Appendf(nil, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		w.ino, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(name)+1, 0))
	w.write(append([]byte(name), 0))
	w.pad()
}

// pad fills up to the next multiple of four.
func (w *Writer) pad() { w.write(make([]byte, -w.n&3)) }

func (w *Writer) write(p []byte) {
	if w.err != nil {
		return
	}
	n, err := w.w.Write(p)
	w.n += int64(n)
	w.err = err
}
