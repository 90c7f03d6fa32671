package app

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"pandastack/internal/kit/flock"
)

func TestDownWhereNothingRuns(t *testing.T) {
	cfg := aConfig(t)
	for range 2 {
		var said []string
		if err := down(t.Context(), cfg, io.Discard, func(line string) { said = append(said, line) }); err != nil {
			t.Fatal(err)
		}
		if len(said) != 1 || !strings.Contains(said[0], "nothing is running in "+cfg.DataDir) {
			t.Errorf("said %q", said)
		}
		_, stop := running(t, cfg) // the second time the folder was in use before
		stop()
	}
}

func TestDownEndsTheHolderOfTheLock(t *testing.T) {
	cfg := aConfig(t)
	d := dataDir(cfg.DataDir)
	if err := d.prepare(); err != nil {
		t.Fatal(err)
	}
	holder := exec.Command("flock", "--no-fork", d.lockFile(), "sleep", "600")
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- holder.Wait() }()
	waitHeld(t, d.lockFile())
	pid := strconv.Itoa(holder.Process.Pid)
	if err := os.WriteFile(d.lockFile(), []byte(pid+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var said []string
	if err := down(t.Context(), cfg, io.Discard, func(line string) { said = append(said, line) }); err != nil {
		t.Fatal(err)
	}
	<-ended
	if len(said) != 1 || said[0] != "stopped the server (process "+pid+")" {
		t.Errorf("said %q", said)
	}
}

func waitHeld(t *testing.T, path string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-tick.C {
		lock, err := flock.Try(path)
		if errors.Is(err, flock.ErrHeld) {
			return
		}
		if err == nil {
			err = lock.Release()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("nobody takes the lock")
}

func TestAnEmbeddedNodeIsNotAnnounced(t *testing.T) {
	cfg := aConfig(t)
	cfg.embedded = true
	_, stop := running(t, cfg)
	if _, err := os.Stat(dataDir(cfg.DataDir).serverFile()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is announced: %v", err)
	}
	stop()
}
