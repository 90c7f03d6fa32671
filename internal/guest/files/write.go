package files

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"pandastack/internal/guestproto"
)

// Write implements guestproto.Guest.WriteFile.
func (f Files) Write(req guestproto.WriteRequest, body io.Reader) (info guestproto.FileInfo, err error) {
	if strings.HasSuffix(req.Path, "/") {
		return info, guestproto.Errorf(guestproto.CodeIsDirectory, "%.300s: names a directory", req.Path)
	}
	p, err := f.at(req.Path)
	if err != nil {
		return info, err
	}
	defer func() { _ = p.Close() }()
	if err := f.throughLink(&p); err != nil {
		return info, refuse(p.full, err)
	}
	if err := p.MkdirAll(filepath.Dir(p.name), 0o755); errors.Is(err, fs.ErrExist) {
		return info, guestproto.Errorf(guestproto.CodeNotDir, "%.300s: is not a directory", filepath.Dir(p.full))
	} else if err != nil {
		return info, refuse(filepath.Dir(p.full), err)
	}
	old, err := p.Lstat(p.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		old = nil
	case err != nil:
		return info, refuse(p.full, err)
	case old.Mode()&fs.ModeSymlink == 0:
		if err := regular(p.full, old); err != nil {
			return info, err
		}
	}
	st, err := p.replace(old, req, body)
	if err != nil {
		return info, refuse(p.full, err)
	}
	return describe(p.full, st, ""), nil
}

// throughLink moves p from a link to the file it leads to, which is the one to
// replace. A link to nothing, or to what is no file, stays and is replaced.
func (f Files) throughLink(p *place) error {
	own, err := p.Lstat(p.name)
	if err != nil || own.Mode()&fs.ModeSymlink == 0 {
		return nil //nolint:nilerr // what is not there is no link
	}
	file, err := p.OpenFile(p.name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	if err != nil {
		return err
	}
	if _, all := p.tree.(whole); all {
		p.name, p.full = real, real
		return nil
	}
	base, err := filepath.EvalSymlinks(f.Workspace)
	if err != nil {
		return err
	}
	if p.name, err = filepath.Rel(base, real); err != nil {
		return err
	}
	p.full = filepath.Join(f.Workspace, p.name)
	return nil
}

// replace writes body beside the file and puts it in the file's place.
func (p place) replace(old fs.FileInfo, req guestproto.WriteRequest, body io.Reader) (st fs.FileInfo, err error) {
	temp := filepath.Join(filepath.Dir(p.name), ".pandastack-"+rand.Text()+".tmp")
	file, err := p.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() {
		if file != nil {
			_ = file.Close()
		}
		if err != nil {
			_ = p.Remove(temp)
		}
	}()
	if err = copyAll(file, body); err != nil {
		return nil, err
	}
	if err = own(file, old, req.Mode); err != nil {
		return nil, err
	}
	if !req.NoSync {
		if err = file.Sync(); err != nil {
			return nil, err
		}
	}
	if st, err = file.Stat(); err != nil {
		return nil, err
	}
	err, file = file.Close(), nil
	if err != nil {
		return nil, err
	}
	if err = p.Rename(temp, p.name); err != nil || req.NoSync {
		return st, err
	}
	return st, p.syncDir()
}

func (p place) syncDir() error {
	dir, err := p.OpenFile(filepath.Dir(p.name), os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return dir.Sync()
}

// own gives the new file the old one's owner and mode, unless another was asked
// for.
func own(file *os.File, old fs.FileInfo, mode uint32) error {
	perm := uint32(0o644)
	if old != nil && old.Mode().IsRegular() {
		if sys, ok := old.Sys().(*syscall.Stat_t); ok {
			perm = sys.Mode & 0o7777
			if err := file.Chown(int(sys.Uid), int(sys.Gid)); err != nil {
				return err
			}
		}
	}
	if mode != 0 {
		perm = mode
	}
	return os.NewSyscallError("fchmod", unix.Fchmod(int(file.Fd()), perm))
}

// copyAll writes body in large pieces, however small those are that it comes in.
func copyAll(file *os.File, body io.Reader) error {
	buf := make([]byte, bufferSize)
	if ended, err := copyPiece(file, body, buf); ended || err != nil {
		return err
	}
	return copyRest(file, body, buf)
}

func copyPieces(to io.Writer, body io.Reader, buf []byte) error {
	for {
		if ended, err := copyPiece(to, body, buf); ended || err != nil {
			return err
		}
	}
}

// copyPiece writes what fits into buf, and says whether body ended with that.
func copyPiece(to io.Writer, body io.Reader, buf []byte) (ended bool, err error) {
	n, err := guestproto.Fill(body, buf)
	if _, err := to.Write(buf[:n]); err != nil {
		return false, err
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("body: %w", err)
	}
	return err != nil, nil
}
