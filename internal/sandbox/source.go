package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/kit/durable"
	"pandastack/internal/memimage"
	"pandastack/internal/panda"
	"pandastack/internal/shim"
)

// source is what a machine is started from: a template's warm snapshot, or a save.
type source struct {
	warm   Warm
	state  string   // device state; "" boots
	disk   string   // qcow2 to copy
	layers []string // over the template's memory
	lowest string   // names that memory
	resume guestproto.ResumeRequest
}

func templateSource(warm Warm, id string) source {
	return source{warm: warm, state: warm.StatePath, disk: warm.OverlaySeed, lowest: warm.Key, resume: identity(id)}
}

// save is the description of a saved machine: the file saveFile in a folder of
// SavesDir, beside what package shim has written there. A folder that no record
// names is of a save that was not finished, or is no longer needed.
type save struct {
	WarmKey  string            `json:"warm_key"` // what disk and memory lie on
	Lowest   string            `json:"lowest"`   // the memory below the layers: WarmKey, or "" for that of a machine that booted
	Compat   string            `json:"compat"`   // what the device state fits (design §4.3)
	CPUs     int               `json:"cpus"`
	MemoryMB int               `json:"memory_mb"`
	Layers   []string          `json:"layers"`         // none: there is only a disk
	Sums     map[string]string `json:"sums,omitempty"` // of device state and disk: shim.Checksum
	Figures  api.Saved         `json:"figures"`
}

const saveFile = "save.json"

func (s *Service) saveDir(id string) string { return filepath.Join(s.cfg.SavesDir, id) }

// capture makes a save of a sandbox's machine. On error nothing is left of it and
// the machine goes on as before.
func (s *Service) capture(ctx context.Context, l *live, id string, last, fleeting bool) (_ shim.Capture, err error) {
	dir := s.saveDir(id)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return shim.Capture{}, diskFull(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(diskFull(err), os.RemoveAll(dir))
		}
	}()
	s.mu.Lock()
	machine, record := l.machine, l.record
	s.mu.Unlock()
	state, err := machine.State(ctx)
	if err != nil {
		return shim.Capture{}, err
	}
	got, err := machine.Capture(ctx, shim.CaptureRequest{Dir: dir, Last: last, Fleeting: fleeting})
	if err != nil {
		return got, err
	}
	return got, writeSave(dir, save{
		WarmKey: record.WarmKey, Lowest: state.Lowest, Compat: state.Key,
		CPUs: record.CPU, MemoryMB: record.MemoryMB, Layers: got.Layers, Sums: got.Sums,
		Figures: api.Saved{MemoryBytes: got.MemoryBytes, WrittenBytes: got.WrittenBytes, DiskBytes: got.DiskBytes, TotalMS: got.TotalMS},
	})
}

// writeSave finishes a save: from now on it is whole.
func writeSave(dir string, v save) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return errors.Join(durable.WriteFile(filepath.Join(dir, saveFile), text, 0o600), durable.SyncDir(filepath.Dir(dir)))
}

// savedDisk gives a sandbox's saved disk, to boot from. It needs nothing else of the
// save, which may be damaged.
func (s *Service) savedDisk(ctx context.Context, record panda.Sandbox) (source, error) {
	disk := filepath.Join(s.saveDir(record.Saved), shim.DiskFile)
	if _, err := os.Stat(disk); err != nil {
		return source{}, s.unreadable(record.Saved, err)
	}
	warm, err := s.stored(ctx, record.WarmKey, Size{record.CPU, record.MemoryMB})
	return source{warm: warm, disk: disk, resume: identity(record.ID)}, err
}

func (s *Service) stored(ctx context.Context, key string, size Size) (Warm, error) {
	warm, err := s.cfg.Templates.Stored(ctx, key)
	warm.CPUs, warm.MemoryMB = size.CPUs, size.MemoryMB
	return warm, err
}

// savedSource looks at a save, and whether it is whole and its memory fits this
// host; there may be only a disk. resume is for the machine that is started from it.
func (s *Service) savedSource(ctx context.Context, id string, resume guestproto.ResumeRequest) (source, error) {
	v, err := s.readSave(id)
	if err != nil {
		return source{}, err
	}
	size, dir := Size{v.CPUs, v.MemoryMB}, s.saveDir(id)
	warm, err := s.stored(ctx, v.WarmKey, size)
	src := source{warm: warm, disk: filepath.Join(dir, shim.DiskFile), resume: resume}
	if err != nil || len(v.Layers) == 0 {
		return src, err
	}
	if err := s.cfg.Templates.Fits(ctx, v.Compat, size); err != nil {
		return source{}, err
	}
	if err := v.verify(dir); err != nil {
		return source{}, err
	}
	src.state, src.lowest = filepath.Join(dir, shim.StateFile), v.Lowest
	for _, name := range v.Layers {
		src.layers = append(src.layers, filepath.Join(dir, filepath.Base(name)))
	}
	if v.Lowest == "" {
		src.warm.MemoryPath = "" // of zeros
	}
	return src, nil
}

func (s *Service) readSave(id string) (v save, err error) {
	text, err := os.ReadFile(filepath.Join(s.saveDir(id), saveFile))
	if err == nil {
		if err = json.Unmarshal(text, &v); err != nil {
			err = fmt.Errorf("%s: %w", saveFile, err)
		}
	}
	if err != nil {
		return v, s.unreadable(id, err)
	}
	return v, nil
}

// verify compares the files that do not verify themselves with what was written.
func (v *save) verify(dir string) error {
	for name, want := range v.Sums {
		path := filepath.Join(dir, filepath.Base(name))
		if got, err := shim.Checksum(path); err != nil || got != want {
			return damaged(errors.Join(fmt.Errorf("%s: checksum %q, want %q", path, got, want), err))
		}
	}
	return nil
}

func (s *Service) unreadable(id string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return snapshotNotFound(id)
	}
	return damaged(fmt.Errorf("read %s: %w", s.saveDir(id), err))
}

func damaged(cause error) error {
	return &panda.Error{Code: api.CodeSnapshotDamaged, Message: "what was saved is damaged", Cause: cause}
}

// startedFrom says of a failed start from a save what was wrong with that.
func startedFrom(err error) error {
	if errors.Is(err, memimage.ErrDamaged) {
		return damaged(err)
	}
	return err
}

// sweepSaves removes the saves that no record names.
func (s *Service) sweepSaves(named map[string]bool) error {
	if err := os.MkdirAll(s.cfg.SavesDir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.cfg.SavesDir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if !named[e.Name()] {
			errs = append(errs, os.RemoveAll(s.saveDir(e.Name())))
		}
	}
	return errors.Join(errs...)
}
