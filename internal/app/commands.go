package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"pandastack/api"
	"pandastack/internal/cli"
	v1 "pandastack/internal/httpapi/v1"
	"pandastack/internal/panda"
	"pandastack/internal/template"
)

// Commands gives the command line what acts on this node.
func Commands(version string, getenv func(string) string) cli.Node {
	load := func(s cli.Settings) (Config, error) {
		cfg, err := Load(s, getenv)
		cfg.Version = version
		return cfg, err
	}
	return cli.Node{
		Serve: func(ctx context.Context, s cli.Settings, out io.Writer) error {
			cfg, err := load(s)
			if err != nil {
				return err
			}
			return serve(ctx, cfg, out)
		},
		Doctor: func(ctx context.Context, s cli.Settings, report func(cli.Check)) error {
			cfg, err := load(s)
			if err != nil {
				return err
			}
			return Doctor(ctx, cfg, report)
		},
		Build: func(ctx context.Context, s cli.Settings, name string, refresh bool, progress func(cli.Progress)) error {
			cfg, err := load(s)
			if err != nil {
				return err
			}
			return build(ctx, cfg, name, refresh, progress)
		},
		OpenAPI: v1.Document,
		Version: func() api.Version { return programVersion(version) },
		Explain: explain,
	}
}

// serve runs a node until ctx ends.
func serve(ctx context.Context, cfg Config, out io.Writer) error {
	if _, err := guestAgent(); err != nil {
		return err
	}
	n, err := Start(ctx, cfg, newLogger(cfg, os.Stderr))
	if err != nil {
		return err
	}
	n.banner(out)
	err = n.Serve(ctx)
	return errors.Join(err, n.Close(context.WithoutCancel(ctx)))
}

// build makes a template ready. It works beside a running server: whoever comes
// second waits for the first.
func build(ctx context.Context, cfg Config, name string, refresh bool, progress func(cli.Progress)) error {
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
	show := func(p template.Progress) {
		progress(cli.Progress{
			Step: p.Step, Index: p.Index, Of: p.Of, Done: p.Done, Total: p.Total, Unit: p.Unit,
			Elapsed: p.Elapsed, Finished: p.Finished, Cached: p.Cached, Note: p.Note,
		})
	}
	if refresh {
		_, changes, err := b.Rebuild(ctx, name, show)
		for _, c := range changes {
			progress(cli.Progress{Step: "changed", Note: fmt.Sprint(c)}) // no step of the build
		}
		return err
	}
	warm, err := b.Ensure(ctx, name, show)
	if err != nil || !m.undecided() {
		return err
	}
	// Only now there is a kernel to try /dev/kvm with; where it works the
	// snapshot is baked again under it.
	progress(cli.Progress{Step: "probe", Note: "booting a guest under " + kvmDevice + " to see whether it really works"})
	if v, err := probeKVM(ctx, m, warm); err != nil || !v.Works {
		return err
	}
	if _, b, err = openTemplates(ctx, cfg, log); err != nil {
		return err
	}
	_, err = b.Ensure(ctx, name, show)
	return err
}

func newLogger(cfg Config, w io.Writer) *slog.Logger {
	level := slog.LevelInfo
	_ = level.UnmarshalText([]byte(cfg.LogLevel)) // Validate knows the levels
	options := &slog.HandlerOptions{Level: level}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// explain tells a user on this machine what is wrong; unlike a remote caller
// they are told the cause.
func explain(err error) cli.Failure {
	f := cli.Failure{Message: err.Error()}
	var known *panda.Error
	if errors.As(err, &known) {
		f.Message, f.Code, f.Hint = known.Message, known.Code, known.Hint
		if f.Hint == "" {
			f.Hint = api.Lookup(known.Code).Hint
		}
		if known.Cause != nil {
			f.More = known.Cause.Error()
		}
	}
	var step *template.StepError
	if errors.As(err, &step) {
		f.Message = fmt.Sprintf("template %s: step %s: %v (log: %s)", step.Template, step.Step, step.Err, step.Log)
		f.More = step.Tail
	}
	return f
}
