package template

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"pandastack/internal/guestproto"
)

const (
	readyLimit = 2 * time.Minute        // for a start command to end, or for its ready check to pass
	readyPause = 200 * time.Millisecond // between two ready checks
	keepOutput = 16 << 10               // bytes of a guest command's output, the last ones
)

// detach leaves a start command running in a session of its own: $1 is its line.
// How it ended, if it does, and what it printed are kept in the guest.
const detach = `setsid sh -c '(eval "$1"); echo $? >/run/pandastack-start.exit' start "$1" </dev/null >/var/log/pandastack-start.log 2>&1 &`

const (
	startEnded = `cat /run/pandastack-start.exit 2>/dev/null`
	startSaid  = `tail -n 20 /var/log/pandastack-start.log 2>/dev/null`
)

// serve runs the recipe's start command until it has ended or, with a ready
// check, until that passes.
func (k *bake) serve(ctx context.Context, g guestproto.Guest) error {
	r := k.src.Recipe
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	if r.Ready == "" {
		return k.startOnce(ctx, g, r.Start)
	}
	if r.Start != "" {
		fmt.Fprintf(k.log, "guest& %s\n", r.Start)
		code, said, err := ask(ctx, g, "/bin/sh", "-c", detach, "sh", r.Start)
		if err == nil && code != 0 {
			err = fmt.Errorf("a shell for it ended with %d: %s", code, said)
		}
		if err != nil {
			return fmt.Errorf("start command: %w", err)
		}
	}
	fmt.Fprintf(k.log, "guest? %s\n", r.Ready)
	err := k.awaitReady(ctx, g, r.Ready)
	if r.Start != "" {
		k.logStart(ctx, g)
	}
	return err
}

// logStart copies the end of what the start command printed, also after its time.
func (k *bake) logStart(ctx context.Context, g guestproto.Guest) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if _, said, err := ask(ctx, g, "/bin/sh", "-c", startSaid); err == nil && said != "" {
		fmt.Fprintf(k.log, "the start command printed:\n%s\n", strings.TrimRight(said, "\n"))
	}
}

// startOnce runs a start command that has to end.
func (k *bake) startOnce(ctx context.Context, g guestproto.Guest, line string) error {
	if line == "" {
		return nil
	}
	fmt.Fprintf(k.log, "guest$ %s\n", line)
	code, said, err := ask(ctx, g, "/bin/sh", "-c", line)
	fmt.Fprint(k.log, said)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("start command has not ended after %v: one that goes on needs a ready check", readyLimit)
	case err != nil:
		return fmt.Errorf("start command: %w", err)
	case code != 0:
		return fmt.Errorf("start command: it ended with %d", code)
	}
	return nil
}

// awaitReady tries the ready check until it passes. A start command that failed
// is not waited for.
func (k *bake) awaitReady(ctx context.Context, g guestproto.Guest, line string) error {
	for {
		code, said, err := ask(ctx, g, "/bin/sh", "-c", line)
		if err == nil && code == 0 {
			return nil
		}
		if ctx.Err() == nil {
			if err != nil {
				return fmt.Errorf("ready check: %w", err)
			}
			if _, ended, err := ask(ctx, g, "/bin/sh", "-c", startEnded); err == nil && failedStart(ended) {
				return fmt.Errorf("start command: it ended with %s before it was ready", strings.TrimSpace(ended))
			}
		}
		select {
		case <-ctx.Done():
			fmt.Fprint(k.log, said)
			return fmt.Errorf("ready check still ends with %d after %v", code, readyLimit)
		case <-time.After(readyPause):
		}
	}
}

// failedStart reads the file in which detach notes an exit code.
func failedStart(text string) bool {
	code, err := strconv.Atoi(strings.TrimSpace(text))
	return err == nil && code != 0
}

// ask runs a program in the guest and gives how it ended and the end of its output.
func ask(ctx context.Context, g guestproto.Guest, argv ...string) (code int, said string, err error) {
	var out []byte
	req := guestproto.ExecRequest{Argv: argv, TimeoutMS: readyLimit.Milliseconds()}
	err = g.Exec(ctx, req, func(e guestproto.ExecEvent) error {
		if e.Type == guestproto.ExecExit {
			code = e.ExitCode
			return nil
		}
		out = append(out, e.Data...)
		out = out[max(0, len(out)-keepOutput):]
		return nil
	})
	return code, string(out), err
}
