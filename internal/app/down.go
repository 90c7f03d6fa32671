package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"pandastack/api"
	"pandastack/internal/kit/flock"
	"pandastack/internal/panda"
)

// stopTime is how long a server may take to end: its requests are cancelled
// after a moment, and it puts everything away within closeTime.
const stopTime = closeTime + 15*time.Second

// down ends the server of a data directory and all sandboxes in it, those of
// earlier servers too. The server goes first: then nothing new can begin.
func down(ctx context.Context, cfg Config, stderr io.Writer, report func(string)) error {
	d := dataDir(cfg.DataDir)
	pid, err := d.stopServer(ctx)
	if err != nil {
		return err
	}
	if pid != 0 {
		report(fmt.Sprintf("stopped the server (process %d)", pid))
	}
	left, err := os.ReadDir(d.runs())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for sandboxes: %w", err)
	}
	if len(left) > 0 {
		return endSandboxes(ctx, cfg, stderr, report)
	}
	if pid == 0 {
		report("nothing is running in " + cfg.DataDir)
	}
	return nil
}

// endSandboxes finds them as a server that starts would, and deletes them.
func endSandboxes(ctx context.Context, cfg Config, stderr io.Writer, report func(string)) (err error) {
	n, _, err := startEmbedded(ctx, cfg, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close(context.WithoutCancel(ctx))) }()
	boxes, err := n.sandboxes.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, box := range boxes {
		if err := n.sandboxes.Delete(ctx, box.ID); err != nil {
			errs = append(errs, err)
			continue
		}
		report(fmt.Sprintf("removed sandbox %s", box.ID))
	}
	return errors.Join(errs...)
}

// stopServer ends the server that holds the data directory's lock and waits
// until it is gone; 0 where there is none. The lock makes sure that the process
// is a server of this folder, and the descriptor that it is not another one by then.
func (d dataDir) stopServer(ctx context.Context) (int, error) {
	if _, err := os.Stat(d.lockFile()); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	lock, err := flock.Try(d.lockFile())
	if err == nil {
		return 0, lock.Release()
	}
	if !errors.Is(err, flock.ErrHeld) {
		return 0, fmt.Errorf("look for the server: %w", err)
	}
	pid, err := strconv.Atoi(d.holder())
	if err != nil {
		return 0, fmt.Errorf("the data directory %s is in use, and its lock does not say by which process", d)
	}
	if err := terminate(pid, d.lockFile()); err != nil {
		return pid, fmt.Errorf("stop the server (process %d): %w", pid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	if lock, err = flock.Acquire(ctx, d.lockFile()); err != nil {
		return pid, &panda.Error{
			Code:    api.CodeHostDataDirLocked,
			Message: fmt.Sprintf("process %d was told to end and has not yet", pid),
			Cause:   err,
		}
	}
	return pid, lock.Release()
}

// terminate asks a process to end that holds a lock.
func terminate(pid int, lockFile string) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil // it ended just now
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// Still held, so the number was the holder's when the descriptor was opened.
	lock, err := flock.Try(lockFile)
	if err == nil {
		return lock.Release()
	}
	if !errors.Is(err, flock.ErrHeld) {
		return err
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}
