package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"pandastack/internal/memimage"
)

// differ compares the memory of two saves of one sandbox byte by byte, and says how
// many megabytes of pages differ. dirs has their folders, with a space between.
func differ(dirs string) (sample, error) {
	one, other, _ := strings.Cut(dirs, " ")
	a, err := savedMemory(one)
	if err != nil {
		return sample{}, err
	}
	defer unix.Munmap(a)
	b, err := savedMemory(other)
	if err != nil {
		return sample{}, err
	}
	defer unix.Munmap(b)
	pages := 0
	for at := 0; at < len(a); at += memimage.Page {
		if !bytes.Equal(a[at:at+memimage.Page], b[at:at+memimage.Page]) {
			pages++
		}
	}
	return sample{MB: float64(pages*memimage.Page) / 1e6}, nil
}

// memory is mapped, and zeros where nothing was written.
type memory []byte

func (m memory) WriteAt(data []byte, at int64) (int, error) { return copy(m[at:], data), nil }

// savedMemory applies a save's layers to zeros: what lies below is the same for both.
func savedMemory(dir string) (memory, error) {
	var save struct {
		MemoryMB int      `json:"memory_mb"`
		Layers   []string `json:"layers"`
	}
	text, err := os.ReadFile(filepath.Join(dir, "save.json"))
	if err == nil {
		err = json.Unmarshal(text, &save)
	}
	if err != nil {
		return nil, err
	}
	m, err := unix.Mmap(-1, 0, save.MemoryMB<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("memory for a comparison: %w", err)
	}
	for _, name := range save.Layers {
		layer, err := memimage.OpenLayer(filepath.Join(dir, name))
		if err == nil {
			err = errors.Join(layer.Apply(memory(m)), layer.Close())
		}
		if err != nil {
			return nil, errors.Join(err, unix.Munmap(m))
		}
	}
	return m, nil
}
