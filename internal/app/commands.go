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
	"pandastack/internal/kit/failpoint"
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
			failpoint.Arm("server", getenv(failpoint.Env))
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
		RemoveTemplate: func(ctx context.Context, s cli.Settings, name string) error {
			cfg, err := load(s)
			if err != nil {
				return err
			}
			return removeTemplate(ctx, cfg, name)
		},
		PruneTemplates: func(ctx context.Context, s cli.Settings) (cli.Pruned, error) {
			cfg, err := load(s)
			if err != nil {
				return cli.Pruned{}, err
			}
			return pruneTemplates(ctx, cfg)
		},
		Embed: func(ctx context.Context, s cli.Settings) (*cli.Embedded, error) {
			cfg, err := load(s)
			if err != nil {
				return nil, err
			}
			return embedNode(ctx, cfg, os.Stderr)
		},
		Down: func(ctx context.Context, s cli.Settings, report func(string)) error {
			cfg, err := load(s)
			if err != nil {
				return err
			}
			return down(ctx, cfg, os.Stderr, report)
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
