package sandbox

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"pandastack/internal/kit/boundlog"
	"pandastack/internal/vmm"
)

const (
	logPoll = 200 * time.Millisecond // how often a follower looks for more
	maxLine = 8 << 10                // bytes; longer lines are cut in pieces
)

// Logs calls sink with each line that a sandbox's machine has printed: agent is
// what the agent wrote on the serial console, everything else all of it. With
// follow it goes on until the machine ends. It works on a failed sandbox too.
func (s *Service) Logs(ctx context.Context, id, stream string, follow bool, sink func(line string) error) error {
	s.mu.Lock()
	l := s.live[id]
	var ended context.Context
	if l != nil {
		ended = l.ended
	}
	s.mu.Unlock()
	if l == nil {
		return notFound(id)
	}
	if stream == "agent" {
		all := sink
		sink = func(line string) error {
			if !ofAgent(line) {
				return nil
			}
			return all(line)
		}
	}
	log, err := boundlog.Open(filepath.Join(l.dir, vmm.ConsoleFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has not begun, or is being deleted
	}
	if err != nil {
		return err
	}
	defer log.Close()
	out := &lines{sink: sink}
	if err := followLog(ctx, ended, log, out, follow); err != nil {
		return err
	}
	return out.end()
}

// followLog copies what is there, and with follow what comes until ended is done.
func followLog(ctx, ended context.Context, log io.Reader, out *lines, follow bool) error {
	for {
		last := !follow || ended.Err() != nil // looked at first: what is there now is then all
		if _, err := io.Copy(out, log); err != nil || last {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ended.Done():
		case <-time.After(logPoll):
		}
	}
}

// ofAgent knows the agent's lines by their form. A process in the guest may
// write such lines too.
func ofAgent(line string) bool {
	return strings.HasPrefix(line, "time=") && strings.Contains(line, " level=")
}

// lines cuts what is written to it into lines of text that are fit for a terminal.
type lines struct {
	sink func(string) error
	rest []byte
}

func (w *lines) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		n := bytes.IndexByte(w.rest, '\n')
		switch {
		case n >= 0 && n <= maxLine:
			if err := w.line(w.rest[:n]); err != nil {
				return 0, err
			}
			w.rest = w.rest[n+1:]
		case len(w.rest) > maxLine:
			if err := w.line(w.rest[:maxLine]); err != nil {
				return 0, err
			}
			w.rest = w.rest[maxLine:]
		default:
			w.rest = append([]byte(nil), w.rest...) // lets go of what was read
			return len(p), nil
		}
	}
}

func (w *lines) end() error {
	if len(w.rest) == 0 {
		return nil
	}
	return w.line(w.rest)
}

func (w *lines) line(text []byte) error {
	return w.sink(strings.Map(printable, plain(strings.ToValidUTF8(string(text), "\uFFFD"))))
}

// printable drops control characters, U+0085 among them: they would act on a
// terminal or end a line that goes on.
func printable(r rune) rune {
	if r != '\t' && unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
		return -1
	}
	return r
}
