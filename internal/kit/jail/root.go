package jail

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

// BuildRoot copies programs with every library they load, and further files
// (glob patterns; those that match nothing are left out), into a new folder
// below parent that can serve as Config.Root. The folder is named by its
// content's paths, sizes and times, so a second call finds it made, and an
// updated package gets another one.
func BuildRoot(parent string, programs, patterns []string) (string, error) {
	files, err := closure(programs, patterns)
	if err != nil {
		return "", err
	}
	root := filepath.Join(parent, fingerprint(files))
	if _, err := os.Stat(root); err == nil {
		return root, nil
	}
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(parent, "tmp-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	if err := fill(tmp, files); err != nil {
		return "", err
	}
	if err := os.Rename(tmp, root); err != nil && !os.IsExist(err) {
		if _, statErr := os.Stat(root); statErr != nil {
			return "", err
		} // another server of this folder was faster
	}
	return root, nil
}

func fill(root string, files []string) error {
	if err := os.Chmod(root, 0o755); err != nil {
		return err
	}
	for _, dir := range []string{"proc", "dev"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := copyFile(f, filepath.Join(root, f)); err != nil {
			return fmt.Errorf("copy %s: %w", f, err)
		}
	}
	return nil
}

// copyFile copies what a path leads to, symbolic links resolved.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, info.Mode().Perm()|0o444)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return err
}

// closure lists the programs, what the patterns match, and all libraries any of them loads.
func closure(programs, patterns []string) ([]string, error) {
	seen := map[string]bool{}
	var elf []string
	for _, p := range programs {
		seen[p] = true
		elf = append(elf, p)
	}
	for _, pattern := range patterns {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, m := range matches {
			if info, err := os.Stat(m); err != nil || !info.Mode().IsRegular() {
				continue
			}
			seen[m] = true
			if strings.HasSuffix(m, ".so") {
				elf = append(elf, m)
			}
		}
	}
	libs, err := libraries(elf)
	if err != nil {
		return nil, err
	}
	for _, l := range libs {
		seen[l] = true
	}
	files := make([]string, 0, len(seen))
	for f := range seen {
		files = append(files, f)
	}
	sort.Strings(files)
	return files, nil
}

// libraries asks the host's dynamic loader which files the given ones load.
func libraries(elf []string) ([]string, error) {
	out, err := exec.Command("ldd", elf...).Output()
	if err != nil {
		return nil, fmt.Errorf("ldd: %w", err)
	}
	var libs []string
	for sc := bufio.NewScanner(bytes.NewReader(out)); sc.Scan(); {
		line := strings.TrimSpace(sc.Text())
		if _, path, ok := strings.Cut(line, "=> "); ok {
			line = path
		}
		if path, _, ok := strings.Cut(line, " (0x"); ok && strings.HasPrefix(path, "/") {
			libs = append(libs, path)
		}
	}
	return libs, nil
}

func fingerprint(files []string) string {
	h := sha256.New()
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			fmt.Fprintf(h, "%s %d %d\n", f, info.Size(), info.ModTime().UnixNano())
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:20]
}
