package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"pandastack/api"
	"pandastack/internal/cli"
	"pandastack/internal/panda"
	"pandastack/internal/store"
	"pandastack/internal/store/sqlstore"
	"pandastack/internal/template"
)

// build makes a template ready: what is a path is a folder with a recipe. It
// works beside a running server: whoever comes second waits for the first.
func build(ctx context.Context, cfg Config, what string, refresh bool, progress func(cli.Progress)) error {
	if _, err := guestAgent(); err != nil {
		return err
	}
	if err := dataDir(cfg.DataDir).prepare(); err != nil {
		return err
	}
	log := newLogger(cfg, os.Stderr)
	m, b, err := openTemplates(ctx, cfg, log)
	if err != nil {
		return err
	}
	req := template.BuildRequest{Name: what, Refresh: refresh}
	if what == "." || what == ".." || strings.ContainsRune(what, filepath.Separator) {
		req.Name, req.Folder = "", what
	}
	show := showProgress(progress)
	built, err := b.Build(ctx, req, show)
	for _, c := range built.Changes {
		progress(cli.Progress{Step: "changed", Note: fmt.Sprint(c)}) // no step of the build
	}
	if err == nil && req.Folder != "" {
		progress(cli.Progress{Step: "registered", Note: fmt.Sprintf("as template %s", built.Name)})
	}
	if err != nil || !m.undecided() {
		return err
	}
	// Only now there is a kernel to try /dev/kvm with; where it works the
	// snapshot is baked again under it.
	progress(cli.Progress{Step: "probe", Note: "booting a guest under " + kvmDevice + " to see whether it really works"})
	if v, err := probeKVM(ctx, m, built.Warm); err != nil || !v.Works {
		return err
	}
	if _, b, err = openTemplates(ctx, cfg, log); err != nil {
		return err
	}
	_, err = b.Build(ctx, template.BuildRequest{Name: built.Name}, show)
	return err
}

func showProgress(progress func(cli.Progress)) template.ProgressFunc {
	return func(p template.Progress) {
		progress(cli.Progress{
			Step: p.Step, Index: p.Index, Of: p.Of, Done: p.Done, Total: p.Total, Unit: p.Unit,
			Elapsed: p.Elapsed, Finished: p.Finished, Cached: p.Cached, Note: p.Note, Log: p.Log,
		})
	}
}

// removeTemplate drops a template and frees what only it needed.
func removeTemplate(ctx context.Context, cfg Config, name string) error {
	b, err := openCatalogue(ctx, cfg)
	if err != nil {
		return err
	}
	if err := b.Remove(ctx, name); err != nil {
		return err
	}
	_, err = collect(ctx, cfg, b)
	if errors.Is(err, template.ErrBusy) {
		return nil // the next prune or start of the server frees it
	}
	return err
}

// pruneTemplates frees what nobody needs.
func pruneTemplates(ctx context.Context, cfg Config) (cli.Pruned, error) {
	b, err := openCatalogue(ctx, cfg)
	if err != nil {
		return cli.Pruned{}, err
	}
	removed, err := collect(ctx, cfg, b)
	pruned := cli.Pruned{Removed: append([]string{}, removed.Paths...), Bytes: removed.Bytes}
	if err == nil {
		removed, err = b.Prune(ctx)
		pruned.Removed, pruned.Bytes = append(pruned.Removed, removed.Paths...), pruned.Bytes+removed.Bytes
	}
	if errors.Is(err, template.ErrBusy) {
		err = &panda.Error{Code: api.CodeTemplateBuilding, Message: "a template is being built; nothing can be freed meanwhile", Cause: err}
	}
	return pruned, err
}

func openCatalogue(ctx context.Context, cfg Config) (*template.Builder, error) {
	if err := dataDir(cfg.DataDir).prepare(); err != nil {
		return nil, err
	}
	_, b, err := openTemplates(ctx, cfg, newLogger(cfg, os.Stderr))
	return b, err
}

// collect frees what neither templates nor sandboxes need. The records say what
// sandboxes need; those of a running server may be read beside it.
func collect(ctx context.Context, cfg Config, b *template.Builder) (template.Removed, error) {
	path := dataDir(cfg.DataDir).store()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return b.GC(ctx, nil)
	}
	records, err := sqlstore.Open(ctx, path)
	if err != nil {
		return template.Removed{}, err
	}
	defer records.Close()
	keys, err := warmKeys(ctx, records)
	if err != nil {
		return template.Removed{}, err
	}
	return b.GC(ctx, keys)
}

// warmKeys are the warm snapshots that sandboxes and snapshots lie on.
func warmKeys(ctx context.Context, records store.Store) (keys []string, err error) {
	boxes, err := records.Sandboxes().List(ctx)
	if err != nil {
		return nil, err
	}
	for _, box := range boxes {
		keys = append(keys, box.WarmKey)
	}
	snapshots, err := records.Snapshots().List(ctx)
	if err != nil {
		return nil, err
	}
	for _, sn := range snapshots {
		keys = append(keys, sn.WarmKey)
	}
	return keys, nil
}
