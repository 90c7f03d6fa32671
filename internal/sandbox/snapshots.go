package sandbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"

	"pandastack/api"
	"pandastack/internal/kit/clone"
	"pandastack/internal/kit/durable"
	"pandastack/internal/kit/failpoint"
	"pandastack/internal/kit/ids"
	"pandastack/internal/kit/logkey"
	"pandastack/internal/panda"
	"pandastack/internal/shim"
	"pandastack/internal/store"
)

// TakeSnapshot saves a sandbox, which goes on. When it returns without an error
// the snapshot outlives anything but the disk, the sandbox too.
func (s *Service) TakeSnapshot(ctx context.Context, id string, req api.TakeSnapshot) (sn panda.Snapshot, err error) {
	if err := checkSnapshot(req); err != nil {
		return sn, err
	}
	if req.Name != "" { // the store looks too, but only after the work
		if _, err := s.Snapshot(ctx, req.Name); err == nil {
			return sn, nameTaken(req.Name)
		}
	}
	err = s.operate(ctx, id, callsGoOn, func(ctx context.Context, l *live) error {
		sn, err = s.snapshot(ctx, l, req)
		return err
	})
	if err != nil {
		return panda.Snapshot{}, err
	}
	s.cfg.Log.Info("snapshot taken", logkey.Sandbox, id, "snapshot", sn.ID, "pause_ms", sn.PauseMS, logkey.MS, sn.TotalMS)
	return sn, nil
}

func (s *Service) snapshot(ctx context.Context, l *live, req api.TakeSnapshot) (panda.Snapshot, error) {
	record := s.status(l)
	sn := panda.Snapshot{
		ID: ids.New(), Name: req.Name, SandboxID: l.id, Template: record.Template, WarmKey: record.WarmKey,
		CPU: record.CPU, MemoryMB: record.MemoryMB, CreatedAt: s.cfg.Now().UTC(),
		Metadata: merged(record.Metadata, req.Metadata), Env: maps.Clone(record.Env),
	}
	got, err := s.copyOf(ctx, l, record, sn.ID, false)
	if err != nil {
		return sn, err
	}
	sn.MemoryBytes, sn.DiskBytes, sn.PauseMS, sn.TotalMS = got.MemoryBytes, got.DiskBytes, got.PauseMS, got.TotalMS
	if err := s.cfg.Store.Snapshots().Put(ctx, sn); err != nil {
		if errors.Is(err, store.ErrExists) {
			err = nameTaken(req.Name)
		}
		return sn, errors.Join(err, os.RemoveAll(s.saveDir(sn.ID)))
	}
	return sn, nil
}

// copyOf makes a save of a sandbox that is left as it is.
func (s *Service) copyOf(ctx context.Context, l *live, record panda.Sandbox, id string, fleeting bool) (shim.Capture, error) {
	switch record.Status {
	case panda.Running, panda.Paused:
		return s.capture(ctx, l, id, false, fleeting)
	case panda.Hibernated:
		return s.copySave(record.Saved, id)
	}
	return shim.Capture{}, cannot(record, "copied")
}

// copySave links a save, whose files nobody writes to.
func (s *Service) copySave(from, to string) (got shim.Capture, err error) {
	dir := s.saveDir(to)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return got, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	files, err := os.ReadDir(s.saveDir(from))
	if err != nil {
		return got, err
	}
	for _, f := range files {
		if err := os.Link(s.saveDir(from)+"/"+f.Name(), dir+"/"+f.Name()); err != nil {
			return got, err
		}
		size, err := clone.Allocated(dir + "/" + f.Name())
		if err != nil {
			return got, err
		}
		if f.Name() == shim.DiskFile {
			got.DiskBytes += size
		} else {
			got.MemoryBytes += size
		}
	}
	return got, errors.Join(durable.SyncDir(dir), durable.SyncDir(s.cfg.SavesDir))
}

// Snapshots gives all snapshots, or those of one sandbox, the oldest first.
func (s *Service) Snapshots(ctx context.Context, sandboxID string) ([]panda.Snapshot, error) {
	all, err := s.cfg.Store.Snapshots().List(ctx)
	if err != nil {
		return nil, err
	}
	var mine []panda.Snapshot
	for _, sn := range all {
		if sandboxID == "" || sn.SandboxID == sandboxID {
			mine = append(mine, sn)
		}
	}
	return mine, nil
}

// Snapshot gives one by its id or its name, or snapshot.not_found.
func (s *Service) Snapshot(ctx context.Context, idOrName string) (panda.Snapshot, error) {
	all, err := s.Snapshots(ctx, "")
	if err != nil {
		return panda.Snapshot{}, err
	}
	for _, sn := range all {
		if sn.ID == idOrName || sn.Name != "" && sn.Name == idOrName {
			return sn, nil
		}
	}
	return panda.Snapshot{}, snapshotNotFound(idOrName)
}

// DeleteSnapshot removes a snapshot. Sandboxes made from it go on.
func (s *Service) DeleteSnapshot(ctx context.Context, idOrName string) error {
	sn, err := s.Snapshot(ctx, idOrName)
	if err != nil {
		return err
	}
	if err := s.cfg.Store.Snapshots().Delete(ctx, sn.ID); err != nil {
		return err
	}
	failpoint.Hit("remove save")
	return os.RemoveAll(s.saveDir(sn.ID)) // else the next Start does
}

func snapshotNotFound(id string) error {
	return &panda.Error{Code: api.CodeSnapshotNotFound, Message: fmt.Sprintf("no snapshot has the id or name %q", shorten(id, 64))}
}

func nameTaken(name string) error {
	return &panda.Error{Code: api.CodeSnapshotNameTaken, Message: fmt.Sprintf("another snapshot is called %q", name)}
}

var snapshotName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func checkSnapshot(req api.TakeSnapshot) error {
	if req.Name != "" && !snapshotName.MatchString(req.Name) {
		return invalid("name", "must be 1 to 64 letters, digits, '.', '_' and '-', and begin with a letter or digit")
	}
	return checkPairs("metadata", req.Metadata)
}

// createFromSnapshot makes l of a snapshot, with that one's template, size,
// environment and metadata; what req gives comes on top.
func (s *Service) createFromSnapshot(ctx context.Context, req api.CreateSandbox, l *live) (panda.Sandbox, error) {
	sn, err := s.Snapshot(ctx, req.FromSnapshot)
	if err != nil {
		return panda.Sandbox{}, err
	}
	if req.CPU != 0 && req.CPU != sn.CPU || req.MemoryMB != 0 && req.MemoryMB != sn.MemoryMB {
		return panda.Sandbox{}, invalid("memory_mb", fmt.Sprintf("and cpu must be left out: the snapshot has %d MB and %d CPUs", sn.MemoryMB, sn.CPU))
	}
	req.Template, req.Env, req.Metadata = sn.Template, merged(sn.Env, req.Env), merged(sn.Metadata, req.Metadata)
	return s.create(ctx, req, l, func(ctx context.Context, b *birth) error {
		b.record.FromSnapshot = sn.ID
		return b.run(ctx, func(ctx context.Context) (source, error) { return s.savedSource(ctx, sn.ID, identity(l.id)) })
	})
}
