package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"pandastack/api"
)

// download copies a file or folder of the sandbox to a local path. All names
// are looked at before the first byte is written, and os.Root keeps whatever
// links lie in the target from leading out of it.
func (t *transfer) download(from, to string) error {
	info, err := t.server.Stat(t.ctx, t.sandbox, from)
	if err != nil {
		return err
	}
	name, err := localName(info, from)
	if err != nil {
		return err
	}
	parent, base, err := localTarget(to, name, info.IsDir && contents(from))
	if err != nil {
		return err
	}
	entries, err := t.list(info, strings.TrimSuffix(from, "/."))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return &localError{message: err.Error()}
	}
	root, err := os.OpenRoot(parent)
	if err != nil {
		return &localError{message: err.Error()}
	}
	defer root.Close()
	bar := newBar(t.Stderr, total(entries))
	defer bar.close()
	for _, e := range entries {
		if err := t.fetch(root, filepath.Join(base, filepath.FromSlash(e.below)), e, bar); err != nil {
			return err
		}
	}
	return nil
}

// localName is what a copy is called in an existing folder: the user's word
// where it names something, else the sandbox's.
func localName(info api.FileInfo, from string) (string, error) {
	name := path.Base(path.Clean(from))
	if name == "." || name == ".." || name == "/" {
		name = path.Base(info.Path)
	}
	if name == "/" {
		name = "root"
	}
	return name, safeName(name)
}

// localTarget gives the folder that nothing may be written outside of, and the
// name in it; "." for the folder itself.
func localTarget(to, name string, contents bool) (parent, base string, err error) {
	info, err := os.Stat(to)
	switch {
	case err == nil && info.IsDir() && contents:
		return to, ".", nil
	case err == nil && info.IsDir(), err != nil && strings.HasSuffix(to, "/") && !contents:
		return to, name, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", "", &localError{message: err.Error()}
	}
	return filepath.Dir(filepath.Clean(to)), filepath.Base(to), nil
}

// safeName refuses a name from a sandbox that is more, or other, than the name of one file.
func safeName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") || !filepath.IsLocal(name) {
		return &localError{
			fmt.Sprintf("the sandbox has a file of the name %q, which would be written outside the target", name),
			"nothing was copied; copy what you need file by file",
		}
	}
	return nil
}

// list gives what is to be copied, folders before what is in them.
func (t *transfer) list(info api.FileInfo, from string) ([]entry, error) {
	top, ok := t.entry(info, from, "")
	if !ok {
		return nil, nil
	}
	entries := []entry{top}
	if !info.IsDir {
		return entries, nil
	}
	return t.listFolder(entries, top, 0)
}

func (t *transfer) listFolder(entries []entry, folder entry, depth int) ([]entry, error) {
	infos, err := t.server.ListDir(t.ctx, t.sandbox, folder.source)
	if err != nil {
		return nil, err
	}
	if depth > maxDepth || len(entries)+len(infos) > maxEntries {
		return nil, errTooMany
	}
	for _, info := range infos {
		if err := safeName(info.Name); err != nil {
			return nil, err
		}
		e, ok := t.entry(info, strings.TrimSuffix(folder.source, "/")+"/"+info.Name, path.Join(folder.below, info.Name))
		if !ok {
			continue
		}
		entries = append(entries, e)
		if !e.folder {
			continue
		}
		if entries, err = t.listFolder(entries, e, depth+1); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// entry says what a file of the sandbox is copied as, if at all.
func (t *transfer) entry(info api.FileInfo, source, below string) (entry, bool) {
	e := entry{source: source, below: below, folder: info.IsDir}
	switch {
	case info.Link != "" && below != "":
		t.skip(source, "a symbolic link")
		return e, false
	case info.IsDir, info.Link != "": // the link that the user named is followed
		return e, true
	case !strings.HasPrefix(info.Mode, "-"):
		t.skip(source, "not a regular file")
		return e, false
	}
	e.size, e.executable = max(info.Size, 0), strings.HasSuffix(info.Mode[:min(4, len(info.Mode))], "x")
	return e, true
}

// fetch writes one entry. A file's old content stays until all of the new one is there.
func (t *transfer) fetch(root *os.Root, to string, e entry, bar *bar) error {
	if e.folder {
		return localErrorOf(root.MkdirAll(to, 0o777))
	}
	body, err := t.server.ReadFile(t.ctx, t.sandbox, e.source)
	if err != nil {
		return err
	}
	defer body.Close()
	mode := os.FileMode(0o666)
	if e.executable {
		mode = 0o777
	}
	bar.name(e.source)
	partial := filepath.Join(filepath.Dir(to), ".partial-"+rand.Text())
	n, err := writeNew(root, partial, mode, io.TeeReader(body, bar))
	if err == nil {
		err = localErrorOf(root.Rename(partial, to))
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(root.Remove(partial)))
	}
	t.files++
	t.bytes += n
	return nil
}

func writeNew(root *os.Root, name string, mode os.FileMode, content io.Reader) (int64, error) {
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return 0, localErrorOf(err)
	}
	n, err := io.Copy(file, content)
	return n, errors.Join(err, file.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// localErrorOf is an error of this machine's files.
func localErrorOf(err error) error {
	if err == nil {
		return nil
	}
	return &localError{message: err.Error()}
}
