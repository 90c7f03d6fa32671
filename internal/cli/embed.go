package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pandastack/api"
	"pandastack/client"
)

// Embedded is a server that runs inside this command.
type Embedded struct {
	URL, Key string
	// Close ends it; sandboxes go on without it.
	Close func(ctx context.Context) error
}

const (
	// lockRetry is how often a data directory that another command uses is tried again.
	lockRetry = 300 * time.Millisecond
	// buildRetry is when a template that is being built is asked for again, if the server does not say.
	buildRetry = 5 * time.Second
)

// withServer calls f with the server that the flags name. Where none runs it
// starts one for as long as f takes.
func (f clientFlags) withServer(s *session, use func(server *client.Client, embedded bool) error) (err error) {
	told := ""
	say := func(line string) {
		if told != line {
			fmt.Fprintln(s.Stderr, line)
			told = line
		}
	}
	for {
		server, err := f.connect(s.Getenv)
		var absent *noServerError
		if err == nil {
			return use(server, false)
		}
		if !errors.As(err, &absent) || s.node.Embed == nil || first(f.API, s.Getenv("PANDASTACK_API")) != "" {
			return err
		}
		embedded, err := s.node.Embed(s.ctx, f.settings())
		switch {
		case err == nil:
			say("no server is running: started one for this command")
			return useEmbedded(s, embedded, use)
		case explain(err, s.node).Code != api.CodeHostDataDirLocked:
			return err
		}
		say("another command uses this data directory: waiting for it to end")
		if err := pause(s.ctx, lockRetry); err != nil {
			return err
		}
	}
}

func useEmbedded(s *session, e *Embedded, use func(*client.Client, bool) error) error {
	err := use(client.New(e.URL, e.Key, nil), true)
	return errors.Join(err, e.Close(context.WithoutCancel(s.ctx)))
}

// settings of a node on the data directory that the flags name.
func (f clientFlags) settings() Settings {
	if f.DataDir == "" {
		return nil
	}
	return Settings{"data_dir": f.DataDir}
}

// createSandbox makes a sandbox and, where its template is being built, waits for that.
func (s *session) createSandbox(server *client.Client, req api.CreateSandbox) (api.Sandbox, error) {
	told := false
	for {
		box, err := server.CreateSandbox(s.ctx, req)
		var refused *client.Error
		if !errors.As(err, &refused) || refused.Code != api.CodeTemplateBuilding {
			return box, err
		}
		if !told {
			fmt.Fprintf(s.Stderr, "%s: waiting for it\n", refused.Message)
			told = true
		}
		wait := refused.RetryAfter
		if wait <= 0 {
			wait = buildRetry
		}
		if err := pause(s.ctx, wait); err != nil {
			return api.Sandbox{}, err
		}
	}
}

// buildMissing makes a template ready for an embedded server, with its progress
// on stderr if there is anything to do.
func (s *session) buildMissing(settings Settings, name string) error {
	view := newProgressView(s.Stderr)
	defer view.close()
	told := false
	return s.node.Build(s.ctx, settings, name, false, func(p Progress) {
		if !told {
			fmt.Fprintf(s.Stderr, "building template %s, which takes some minutes the first time\n", name)
			told = true
		}
		view.show(p)
	})
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
