package resume

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"pandastack/internal/guestproto"
)

// run executes a hook as the agent would.
func run(ctx context.Context, req guestproto.ExecRequest, sink func(guestproto.ExecEvent) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(req.TimeoutMS)*time.Millisecond)
	defer cancel()
	cmd := exec.CommandContext(ctx, req.Argv[0], req.Argv[1:]...)
	for name, value := range req.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	return sink(guestproto.ExecEvent{Type: guestproto.ExecExit, ExitCode: cmd.ProcessState.ExitCode(), TimedOut: ctx.Err() != nil})
}

func TestHooks(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	for name, text := range map[string]string{
		"10-good": "echo good $PANDASTACK_RESEEDED >>" + out,
		"20-bad":  "exit 3",
		"30-last": "echo last >>" + out,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "README"), []byte("not a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := System{Exec: run}
	steps := s.hooks(t.Context(), dir, true)
	if len(steps) != 3 || steps[0].Name != "hook 10-good" || steps[0].Error != "" || steps[1].Error != "exit code 3" || steps[2].Error != "" {
		t.Errorf("steps %+v", steps)
	}
	if text, err := os.ReadFile(out); err != nil || string(text) != "good true\nlast\n" {
		t.Errorf("the hooks wrote %q, %v", text, err)
	}
	if steps := s.hooks(t.Context(), filepath.Join(dir, "none"), true); steps != nil {
		t.Errorf("without a folder: %+v", steps)
	}
}

func TestAHookThatHangsIsKilled(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"1", "2"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nexec sleep 60\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	steps := System{Exec: run}.hooks(t.Context(), dir, false)
	if len(steps) != 2 || steps[0].Error == "" || steps[1].Error == "" {
		t.Errorf("steps %+v", steps)
	}
}
