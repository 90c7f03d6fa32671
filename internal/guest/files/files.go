// Package files reads and replaces whole files in the guest.
package files

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"pandastack/internal/guestproto"
)

// bufferSize is large because every system call is dear under emulation.
const bufferSize = 512 << 10

// Files resolves relative paths under Workspace and keeps them there; absolute
// ones mean the whole guest. Methods may be called concurrently.
type Files struct{ Workspace string }

// place is a path and the file system that it is resolved in.
type place struct {
	tree
	name string // within the tree
	full string // for the reader of a message
}

// at resolves path. The caller closes the place.
func (f Files) at(path string) (place, error) {
	if len(path) > guestproto.MaxPath || strings.IndexByte(path, 0) >= 0 {
		return place{}, guestproto.Errorf(guestproto.CodeInvalid, "path: more than %d bytes or a NUL in it", guestproto.MaxPath)
	}
	if filepath.IsAbs(path) {
		clean := filepath.Clean(path)
		return place{tree: whole{}, name: clean, full: clean}, nil
	}
	name := filepath.Clean(path)
	if !filepath.IsLocal(name) {
		return place{}, guestproto.Errorf(guestproto.CodePathEscape, "path %.200q leaves the workspace", path)
	}
	root, err := os.OpenRoot(f.Workspace)
	if err != nil {
		return place{}, refuse(f.Workspace, err)
	}
	return place{tree: root, name: name, full: filepath.Join(f.Workspace, name)}, nil
}

// refuse turns a file system's error into one that may travel.
func refuse(path string, err error) error {
	code := ""
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		code = guestproto.CodeNotFound
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EEXIST): // a parent folder that is a file
		code = guestproto.CodeNotDir
	case errors.Is(err, unix.EISDIR):
		code = guestproto.CodeIsDirectory
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		code = guestproto.CodeNoSpace
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		code = guestproto.CodePermission
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENAMETOOLONG):
		code = guestproto.CodeInvalid
	case isEscape(err):
		code = guestproto.CodePathEscape
	default:
		return err
	}
	if e := (*guestproto.Error)(nil); errors.As(err, &e) {
		return e
	}
	return guestproto.Errorf(code, "%.300s: %v", path, reason(err))
}

// reason is err without the operation and path it is wrapped in.
func reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	var le *os.LinkError
	if errors.As(err, &le) {
		return le.Err
	}
	return err
}

// isEscape knows os.Root's refusal, which has no value to compare with.
func isEscape(err error) bool {
	return strings.Contains(reason(err).Error(), "escapes from parent")
}

// Read implements guestproto.Guest.ReadFile.
func (f Files) Read(path string) (guestproto.FileInfo, io.ReadCloser, error) {
	p, err := f.at(path)
	if err != nil {
		return guestproto.FileInfo{}, nil, err
	}
	defer func() { _ = p.Close() }()
	// O_NONBLOCK: opening a FIFO must not wait for its writer.
	file, err := p.OpenFile(p.name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return guestproto.FileInfo{}, nil, refuse(p.full, err)
	}
	st, err := file.Stat()
	if err == nil {
		err = regular(p.full, st)
	}
	if err != nil {
		_ = file.Close()
		return guestproto.FileInfo{}, nil, refuse(p.full, err)
	}
	if st.Size() == 0 {
		return generated(file, p.full, st)
	}
	return describe(p.full, st, ""), &content{file, st.Size()}, nil
}

// maxGenerated bounds a file that the kernel makes up while it is read.
const maxGenerated = 4 << 20

// generated reads a file that says it is empty: those of /proc and /sys do, and
// are not.
func generated(file *os.File, full string, st fs.FileInfo) (guestproto.FileInfo, io.ReadCloser, error) {
	defer func() { _ = file.Close() }()
	info := describe(full, st, "")
	b, err := io.ReadAll(io.LimitReader(file, maxGenerated))
	if err != nil {
		return info, nil, refuse(full, err)
	}
	info.Size = int64(len(b))
	return info, io.NopCloser(strings.NewReader(string(b))), nil
}

func regular(path string, st fs.FileInfo) error {
	switch {
	case st.IsDir():
		return guestproto.Errorf(guestproto.CodeIsDirectory, "%.300s: is a directory", path)
	case !st.Mode().IsRegular():
		return guestproto.Errorf(guestproto.CodeInvalid, "%.300s: is not a regular file (%s)", path, st.Mode().Type())
	}
	return nil
}

func describe(full string, st fs.FileInfo, link string) guestproto.FileInfo {
	return guestproto.FileInfo{
		Name: filepath.Base(full), Path: full, IsDir: st.IsDir(), Size: st.Size(),
		Mode: modeString(st.Mode()), MTime: st.ModTime().Unix(), Link: link,
	}
}

// modeString gives a mode as ls prints it.
func modeString(m fs.FileMode) string {
	kind := byte('-')
	switch {
	case m.IsDir():
		kind = 'd'
	case m&fs.ModeSymlink != 0:
		kind = 'l'
	case m&fs.ModeNamedPipe != 0:
		kind = 'p'
	case m&fs.ModeSocket != 0:
		kind = 's'
	case m&fs.ModeCharDevice != 0:
		kind = 'c'
	case m&fs.ModeDevice != 0:
		kind = 'b'
	}
	text := []byte(m.Perm().String())
	text[0] = kind
	for _, special := range []struct {
		bit   fs.FileMode
		at    int
		lower byte
	}{{fs.ModeSetuid, 3, 's'}, {fs.ModeSetgid, 6, 's'}, {fs.ModeSticky, 9, 't'}} {
		if m&special.bit == 0 {
			continue
		}
		if text[special.at] == '-' { // not executable
			special.lower -= 'a' - 'A'
		}
		text[special.at] = special.lower
	}
	return string(text)
}

// Stat implements guestproto.Guest. It follows links; one that leads nowhere is
// described itself.
func (f Files) Stat(path string) (guestproto.FileInfo, error) {
	p, err := f.at(path)
	if err != nil {
		return guestproto.FileInfo{}, err
	}
	defer func() { _ = p.Close() }()
	own, err := p.Lstat(p.name)
	if err != nil {
		return guestproto.FileInfo{}, refuse(p.full, err)
	}
	if own.Mode()&fs.ModeSymlink == 0 {
		return describe(p.full, own, ""), nil
	}
	link, _ := p.Readlink(p.name)
	target, err := p.Stat(p.name)
	if errors.Is(err, fs.ErrNotExist) {
		return describe(p.full, own, link), nil
	}
	if err != nil {
		return guestproto.FileInfo{}, refuse(p.full, err)
	}
	return describe(p.full, target, link), nil
}

// List implements guestproto.Guest.ListDir, sorted by name. Links are not
// followed.
func (f Files) List(path string) ([]guestproto.FileInfo, error) {
	p, err := f.at(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = p.Close() }()
	dir, err := p.OpenFile(p.name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, refuse(p.full, err)
	}
	defer func() { _ = dir.Close() }()
	entries, err := dir.Readdir(-1)
	if err != nil {
		return nil, refuse(p.full, err)
	}
	infos := make([]guestproto.FileInfo, 0, len(entries))
	for _, st := range entries {
		link := ""
		if st.Mode()&fs.ModeSymlink != 0 {
			link, _ = p.Readlink(filepath.Join(p.name, st.Name()))
		}
		infos = append(infos, describe(filepath.Join(p.full, st.Name()), st, link))
	}
	slices.SortFunc(infos, func(a, b guestproto.FileInfo) int { return cmp.Compare(a.Name, b.Name) })
	return infos, nil
}
