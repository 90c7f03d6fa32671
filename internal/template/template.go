// Package template turns a recipe into what a sandbox starts from: a read-only
// disk image with its kernel, an initrd with the agent, and a warm snapshot. All
// three are named by what went into them, made in a private folder and published
// by one rename, so that nothing half made is ever found.
package template

import (
	"context"
	"io/fs"
	"log/slog"
	"sync"

	"pandastack/internal/shim"
)

// Debian's own servers; a Config may name a mirror.
const (
	DefaultMirror         = "http://deb.debian.org/debian"
	DefaultSecurityMirror = "http://deb.debian.org/debian-security"
)

// Config is what a Builder works with.
type Config struct {
	Data    string // the data directory
	Recipes fs.FS  // one folder per template
	// Mirror and SecurityMirror are used for building only; the image names
	// Debian's own servers.
	Mirror         string
	SecurityMirror string
	Log            *slog.Logger

	// What follows is needed for warm snapshots only.

	Agent        []byte // the guest agent, a static program
	AgentVersion string
	KernelHost   fs.FS // the Python package pandastack_kernel, as its own folder
	Starter      shim.Starter
	Cmdline      string    // of the guest's kernel
	Accelerator  string    // "" lets the driver choose
	Jail         shim.Jail // of the machine that is baked
	// Compat says what a snapshot made now would depend on beyond its content:
	// VMM, accelerator, CPU model, machine. Whatever changes it makes templates
	// bake again.
	Compat func(ctx context.Context, cpus, memoryMB int) (string, error)
	// Fits says whether a snapshot with the given compatibility key can be
	// loaded on this host; nil accepts all.
	Fits func(ctx context.Context, key string) error
}

// Builder makes templates and keeps the catalogue of them. Its methods may be
// called concurrently, by several processes too.
type Builder struct {
	cfg    Config
	layout layout

	mu    sync.Mutex
	known map[string]*Warm // by template and size: what Ensure returned
}

// New returns a Builder on cfg's data directory, which it prepares.
func New(cfg Config) (*Builder, error) {
	if cfg.Mirror == "" {
		cfg.Mirror = DefaultMirror
	}
	if cfg.SecurityMirror == "" {
		cfg.SecurityMirror = DefaultSecurityMirror
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	b := &Builder{cfg: cfg, layout: layout(cfg.Data), known: map[string]*Warm{}}
	return b, b.layout.prepare()
}
