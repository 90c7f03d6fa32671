package harness

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// Program runs a command of the program that is to succeed, and gives what it
// printed.
func Program(t testing.TB, dir string, atMost time.Duration, args ...string) string {
	t.Helper()
	out, err := run(dir, atMost, args)
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return out
}

// ProgramFails runs one that is to end with 1, and gives what it printed.
func ProgramFails(t testing.TB, dir string, atMost time.Duration, args ...string) string {
	t.Helper()
	out, err := run(dir, atMost, args)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("%q ended with %v, want exit code 1\n%s", args, err, out)
	}
	return out
}

func run(dir string, atMost time.Duration, args []string) (string, error) {
	cmd := command(dir, nil, args...)
	timer := time.AfterFunc(atMost, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Background starts a command of the program; the test ends it, at the latest.
func Background(t testing.TB, dir string, args ...string) *os.Process {
	t.Helper()
	cmd := command(dir, nil, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	return cmd.Process
}
