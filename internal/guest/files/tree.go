package files

import (
	"io/fs"
	"os"
)

// tree is what whole files need of a file system: os.Root has it, and whole.
type tree interface {
	OpenFile(name string, flag int, perm os.FileMode) (*os.File, error)
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	Readlink(name string) (string, error)
	MkdirAll(name string, perm os.FileMode) error
	Rename(from, to string) error
	Remove(name string) error
	Close() error
}

// whole is everything the guest has, by absolute paths.
type whole struct{}

func (whole) OpenFile(name string, flag int, perm os.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag, perm)
}
func (whole) Stat(name string) (fs.FileInfo, error)        { return os.Stat(name) }
func (whole) Lstat(name string) (fs.FileInfo, error)       { return os.Lstat(name) }
func (whole) Readlink(name string) (string, error)         { return os.Readlink(name) }
func (whole) MkdirAll(name string, perm os.FileMode) error { return os.MkdirAll(name, perm) }
func (whole) Rename(from, to string) error                 { return os.Rename(from, to) }
func (whole) Remove(name string) error                     { return os.Remove(name) }
func (whole) Close() error                                 { return nil }
