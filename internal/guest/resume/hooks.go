package resume

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"pandastack/internal/guestproto"
)

// HooksDir has programs that are run after every resume, in the order of their
// names: for what only they know to renew, such as a connection or a generator.
const HooksDir = "/etc/pandastack/on_resume.d"

// hooksTime bounds all hooks of one resume together: whoever resumes waits for them.
const hooksTime = 5 * time.Second

// Exec runs a process in the guest, as guestproto.Guest.Exec does.
type Exec func(ctx context.Context, req guestproto.ExecRequest, sink func(guestproto.ExecEvent) error) error

// hooks runs what is in dir. One that fails is said so in its step, and does not
// keep the machine from going on.
func (s System) hooks(ctx context.Context, dir string, reseeded bool) (steps []guestproto.Step) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // there are none
	}
	ctx, cancel := context.WithTimeout(ctx, hooksTime)
	defer cancel()
	for _, e := range entries {
		if info, err := os.Stat(filepath.Join(dir, e.Name())); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			continue
		}
		begun := time.Now()
		step := guestproto.Step{Name: "hook " + e.Name()}
		if err := s.hook(ctx, filepath.Join(dir, e.Name()), reseeded); err != nil {
			step.Error = err.Error()
		}
		step.MS = milliseconds(begun)
		steps = append(steps, step)
	}
	return steps
}

func (s System) hook(ctx context.Context, path string, reseeded bool) error {
	left, _ := ctx.Deadline()
	limit := time.Until(left).Milliseconds()
	if limit <= 0 {
		return fmt.Errorf("not run: the hooks before it took %v", hooksTime)
	}
	var exit guestproto.ExecEvent
	err := s.Exec(ctx, guestproto.ExecRequest{
		Argv: []string{path}, TimeoutMS: limit,
		Env: map[string]string{"PANDASTACK_RESEEDED": fmt.Sprint(reseeded)},
	}, func(e guestproto.ExecEvent) error {
		if e.Type == guestproto.ExecExit {
			exit = e
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case exit.TimedOut:
		return fmt.Errorf("killed after %v, which all hooks have together", hooksTime)
	case exit.Signal != "":
		return fmt.Errorf("ended by %s", exit.Signal)
	case exit.ExitCode != 0:
		return fmt.Errorf("exit code %d", exit.ExitCode)
	}
	return nil
}

func milliseconds(since time.Time) float64 {
	return float64(time.Since(since).Microseconds()) / 1000
}
