package template

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"pandastack/internal/kit/cpio"
	"pandastack/internal/kit/durable"
	"pandastack/internal/kit/flock"
)

// Where things are in the initrd; the agent looks for them there.
const (
	initPath       = "/init"
	modulesPath    = "/modules"
	kernelHostPath = "/python/pandastack_kernel"
)

// Initrd returns the path and key of the initrd that boots img with this
// Builder's agent and Python kernel host, making it unless it is there.
func (b *Builder) Initrd(ctx context.Context, img *Image) (path, key string, err error) {
	archive, err := buildInitrd(b.cfg.Agent, img.Modules(), b.cfg.KernelHost)
	if err != nil {
		return "", "", fmt.Errorf("build initrd: %w", err)
	}
	key = hashBytes(archive)
	path = filepath.Join(b.layout.boot(key), "initrd")
	if err := readable(path); err == nil {
		return path, key, nil
	}
	l, err := flock.Acquire(ctx, b.layout.lockFile("boot"))
	if err != nil {
		return "", "", err
	}
	defer l.Release()
	// The file's own rename makes it whole; an empty folder is no initrd.
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", "", err
	}
	if err := durable.WriteFile(path, archive, 0o644); err != nil {
		return "", "", fmt.Errorf("write initrd: %w", err)
	}
	return path, key, durable.SyncDir(b.layout.path("boot"))
}

// buildInitrd puts agent, modules and kernel host in one archive. It is not
// compressed: unpacking costs an emulated CPU more than reading does.
func buildInitrd(agent []byte, modules string, host fs.FS) ([]byte, error) {
	if len(agent) == 0 {
		return nil, errors.New("this program was built without the guest agent")
	}
	var buf bytes.Buffer
	w := cpio.NewWriter(&buf)
	w.File(initPath, 0o755, agent)
	if err := addTree(w, modulesPath, os.DirFS(modules)); err != nil {
		return nil, err
	}
	if host != nil {
		if err := addTree(w, kernelHostPath, host); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// addTree adds the regular files of a tree, in order of their names.
func addTree(w *cpio.Writer, at string, tree fs.FS) error {
	return fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "__pycache__" {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || strings.HasSuffix(name, ".pyc") {
			return nil
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		w.File(path.Join(at, name), 0o644, content)
		return nil
	})
}
