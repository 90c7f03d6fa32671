// Package boundlog keeps a log whose writer may write without end: its
// beginning and its latest part, in files that a reader can follow.
//
// The beginning is in NAME.log. What comes after it is in NAME.1.log, NAME.2.log
// and so on, of which the latest two are kept. A file that was begun is only
// ever appended to, and none changes its name, so a reader needs no word with
// the writer and works as well when that is gone.
package boundlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// kept is how many files after the beginning there are at most.
const kept = 2

// Writer writes a log. Its methods may be called concurrently.
type Writer struct {
	path  string
	limit int64

	mu   sync.Mutex
	part int
	file *os.File
	size int64 // of the part
}

// Create begins a log at path, which ends in .log, whose files have at most
// limit bytes each. One that was there is removed.
func Create(path string, limit int64) (*Writer, error) {
	if filepath.Ext(path) != ".log" || limit <= 0 {
		return nil, fmt.Errorf("log %s: want a name that ends in .log and a limit", path)
	}
	parts, err := later(path, 0)
	for _, part := range parts {
		err = errors.Join(err, os.Remove(partPath(path, part)))
	}
	if err != nil {
		return nil, fmt.Errorf("remove old log: %w", err)
	}
	w := &Writer{path: path, limit: limit}
	return w, w.begin()
}

func (w *Writer) begin() (err error) {
	w.file, err = os.OpenFile(partPath(w.path, w.part), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	w.size = 0
	return err
}

// Write never fails: a full disk must not stop who writes, and a log that is
// lost is better than that.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	total := len(p)
	for len(p) > 0 {
		if w.size == w.limit {
			w.nextLocked()
		}
		n := min(w.limit-w.size, int64(len(p)))
		if w.file != nil {
			_, _ = w.file.Write(p[:n])
		}
		w.size += n
		p = p[n:]
	}
	return total, nil
}

// nextLocked begins the next part; where that fails, its bytes are lost.
func (w *Writer) nextLocked() {
	if w.file != nil {
		_ = w.file.Close()
	}
	w.part++
	if w.begin() != nil {
		w.file = nil
	}
	if old := w.part - kept; old > 0 {
		_ = os.Remove(partPath(w.path, old))
	}
}

// Close ends the log; what was written stays.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}

// Reader reads a log from its beginning.
type Reader struct {
	path string
	part int
	file *os.File
}

// Open opens the log at path. Only regular files are read, no links.
func Open(path string) (*Reader, error) {
	r := &Reader{path: path}
	return r, r.open(0)
}

func (r *Reader) open(part int) error {
	path := partPath(r.path, part)
	if info, err := os.Lstat(path); err != nil {
		return err
	} else if !info.Mode().IsRegular() {
		return fmt.Errorf("log %s: not a regular file", path)
	}
	file, err := os.Open(path)
	if err == nil {
		r.part, r.file = part, file
	}
	return err
}

// Read gives io.EOF at what is the end now; more may be there later. Where
// parts are gone it goes on with the next one that is there.
func (r *Reader) Read(p []byte) (int, error) {
	for {
		n, err := r.file.Read(p)
		if n > 0 || err != io.EOF {
			return n, err
		}
		more, err := r.next(p)
		if more > 0 || err != nil {
			return more, err
		}
	}
}

// next goes on to the part after the one that was read to its end. A part whose
// successor exists does not grow any more, but may have until just now.
func (r *Reader) next(p []byte) (int, error) {
	parts, err := later(r.path, r.part)
	if err != nil {
		return 0, err
	}
	if len(parts) == 0 {
		return 0, io.EOF
	}
	if n, err := r.file.Read(p); n > 0 {
		return n, err
	}
	done := r.file
	for _, part := range parts {
		switch err := r.open(part); {
		case err == nil:
			return 0, done.Close()
		case !errors.Is(err, fs.ErrNotExist): // not removed meanwhile
			return 0, err
		}
	}
	return 0, io.EOF
}

// Close closes the file that is open.
func (r *Reader) Close() error { return r.file.Close() }

func partPath(path string, part int) string {
	if part == 0 {
		return path
	}
	return strings.TrimSuffix(path, ".log") + "." + strconv.Itoa(part) + ".log"
}

// later lists the parts after one, in order.
func later(path string, after int) ([]int, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	base := strings.TrimSuffix(filepath.Base(path), ".log") + "."
	var parts []int
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), base)
		part, err := strconv.Atoi(strings.TrimSuffix(number, ".log"))
		if ok && err == nil && part > after && e.Name() == filepath.Base(partPath(path, part)) {
			parts = append(parts, part)
		}
	}
	slices.Sort(parts)
	return parts, nil
}
