package template

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// build is one run of the steps that make an image. Its folder is named by the
// recipe, so that the next run goes on where a killed one stopped.
type build struct {
	*tracker
	src      *Source
	apt      apt
	dir      string
	wheelDir string
	log      io.Writer // of the current step
}

// step is one part of a build. A finished step leaves a stamp and is not done
// again; one that was cut short is, so it starts by removing what it makes.
type step struct {
	name string
	run  func(*build, context.Context) error
}

var imageSteps = []step{
	{"packages", (*build).fetch},
	{"kernel", (*build).kernel},
	{"debootstrap", (*build).debootstrap},
	{"resolve", (*build).resolve},
	{"wheels", (*build).wheels},
	{"venv", (*build).virtualenv},
	{"files", (*build).files},
	{"caches", (*build).caches},
	{"image", (*build).image},
	{"manifest", (*build).manifest},
}

func (b *build) rootfs() string          { return filepath.Join(b.dir, "rootfs") }
func (b *build) out(name string) string  { return filepath.Join(b.dir, "out", name) }
func (b *build) stamp(s string) string   { return filepath.Join(b.dir, "done-"+s) }
func (b *build) logPath(s string) string { return filepath.Join(b.dir, s+".log") }

// all runs the steps that are not done yet.
func (b *build) all(ctx context.Context) error {
	// Stamps whose outcome was published say nothing about a new build.
	if _, err := os.Stat(b.out("")); errors.Is(err, fs.ErrNotExist) {
		if err := os.RemoveAll(b.dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(b.out(""), 0o700); err != nil {
		return err
	}
	for _, s := range imageSteps {
		b.begin(s.name)
		if past, ok := readStamp(b.stamp(s.name)); ok {
			b.finish(past, true)
			continue
		}
		if err := b.one(ctx, s); err != nil {
			return &StepError{
				Template: b.src.Recipe.Name, Step: s.name, Err: err,
				Log: b.logPath(s.name), Tail: tail(b.logPath(s.name), 12),
			}
		}
	}
	return nil
}

// one runs a step and stamps it.
func (b *build) one(ctx context.Context, s step) (err error) {
	file, err := os.Create(b.logPath(s.name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	b.log = b.stream(file)
	if err := s.run(b, ctx); err != nil {
		return err
	}
	took := b.elapsed()
	boot, err := bootID()
	if err != nil {
		return err
	}
	if err := writeJSON(b.stamp(s.name), stamp{Took: took, Boot: boot}); err != nil {
		return err
	}
	b.finish(took, false)
	return nil
}

// stamp says that a step is done. What it made may not be on the disk yet, only
// in the host's memory: so a stamp counts until the host is booted again, and
// nothing but the finished image has to be synced.
type stamp struct {
	Took StepTime `json:"took"`
	Boot string   `json:"boot_id"`
}

func readStamp(path string) (StepTime, bool) {
	var s stamp
	text, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(text, &s) != nil {
		return s.Took, false
	}
	boot, err := bootID()
	return s.Took, err == nil && s.Boot == boot
}

func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}

// StepError says which step of a build failed and where its log is.
type StepError struct {
	Template, Step string
	Log            string // path
	Tail           string // the log's last lines
	Err            error
}

func (e *StepError) Error() string {
	text := fmt.Sprintf("build template %s: step %s: %v (log: %s)", e.Template, e.Step, e.Err, e.Log)
	if e.Tail != "" {
		text += "\n" + e.Tail
	}
	return text
}

// Unwrap gives the cause.
func (e *StepError) Unwrap() error { return e.Err }

// tail returns the last lines of a file, of its last 16 KiB.
func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	text = text[max(0, len(text)-16<<10):]
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
