package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"pandastack/api"
	"pandastack/client"
)

// upload copies a local file or folder into the sandbox.
func (t *transfer) upload(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return localErrorOf(err)
	}
	entries := []entry{localEntry(from, "", info)}
	if info.IsDir() {
		if entries, err = t.walk(from); err != nil {
			return err
		}
	}
	target, err := t.remoteTarget(from, to, info.IsDir() && contents(from))
	if err != nil {
		return err
	}
	bar := newBar(t.Stderr, total(entries))
	defer bar.close()
	for _, e := range entries {
		if e.folder {
			continue // made with its files, or below if it has none
		}
		if err := t.send(e, path.Join(target, e.below), bar); err != nil {
			return err
		}
	}
	return t.finish(target, entries)
}

// remoteTarget is where a copy goes: into a folder that exists, else to the very path.
func (t *transfer) remoteTarget(from, to string, contents bool) (string, error) {
	info, err := t.server.Stat(t.ctx, t.sandbox, to)
	var refused *client.Error
	missing := errors.As(err, &refused) && refused.Code == api.CodeFileNotFound
	switch {
	case err != nil && !missing:
		return "", err
	case contents, missing && !strings.HasSuffix(to, "/"), err == nil && !info.IsDir:
		return to, nil
	}
	absolute, err := filepath.Abs(from)
	return path.Join(to, filepath.Base(absolute)), localErrorOf(err)
}

func (t *transfer) walk(from string) ([]entry, error) {
	var entries []entry
	err := filepath.WalkDir(from+string(filepath.Separator), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if len(entries) > maxEntries {
			return errTooMany
		}
		below, err := filepath.Rel(from, name)
		switch {
		case err != nil:
			return err
		case d.IsDir() || info.Mode().IsRegular():
			entries = append(entries, localEntry(name, filepath.ToSlash(below), info))
		case info.Mode()&os.ModeSymlink != 0:
			t.skip(name, "a symbolic link")
		default:
			t.skip(name, "not a regular file")
		}
		return nil
	})
	return entries, localErrorOf(err)
}

func localEntry(source, below string, info fs.FileInfo) entry {
	e := entry{source: source, below: below, folder: info.IsDir()}
	if !e.folder {
		e.size, e.executable = info.Size(), info.Mode()&0o100 != 0
	}
	return e
}

func (t *transfer) send(e entry, to string, bar *bar) error {
	file, err := os.Open(e.source)
	if err != nil {
		return localErrorOf(err)
	}
	defer file.Close()
	bar.name(e.source)
	if err := t.server.WriteFile(t.ctx, t.sandbox, to, io.TeeReader(file, bar)); err != nil {
		return err
	}
	t.files++
	t.bytes += e.size
	return nil
}

// argumentBytes is how much one command line of finish may have.
const argumentBytes = 100 << 10

// finish makes the folders without files and what can be executed so. Paths
// that are relative mean the same to the sandbox's processes.
func (t *transfer) finish(target string, entries []entry) error {
	full := map[string]bool{}
	for _, e := range entries {
		full[path.Dir(e.below)] = true
	}
	var empty, executable []string
	for _, e := range entries {
		switch name := path.Join(target, e.below); {
		case e.folder && !full[e.below]:
			empty = append(empty, name)
		case e.executable:
			executable = append(executable, name)
		}
	}
	return errors.Join(t.inBatches([]string{"mkdir", "-p", "--"}, empty), t.inBatches([]string{"chmod", "+x", "--"}, executable))
}

// inBatches runs a command on paths, as many at a time as fit on its command line.
func (t *transfer) inBatches(command, paths []string) error {
	for len(paths) > 0 {
		n, size := 0, 0
		for n < len(paths) && (n == 0 || size+len(paths[n]) < argumentBytes) {
			size += len(paths[n]) + 1
			n++
		}
		result, err := t.server.Exec(t.ctx, t.sandbox, api.Exec{Argv: append(append([]string{}, command...), paths[:n]...)})
		if err != nil {
			return err
		}
		if result.ExitCode != 0 {
			return &localError{message: fmt.Sprintf("%s in the sandbox: %s", command[0], strings.TrimSpace(result.Stderr))}
		}
		paths = paths[n:]
	}
	return nil
}
