//go:build vm

package cli

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pandastack/test/harness"
)

// shellTime bounds what a shell does at one key.
const shellTime = time.Minute

// terminal is what a user sees and types on.
type terminal struct {
	t    *testing.T
	pty  *os.File
	mu   sync.Mutex
	text strings.Builder // all that was shown
	seen int             // up to where a test has looked
}

// open starts a program on a terminal of its own. The end of the test ends it.
func open(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	pty, tty := pair(t)
	defer tty.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, pty: pty}
	var reading sync.WaitGroup
	reading.Go(term.read)
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		_ = pty.Close()
		reading.Wait()
	})
	return term
}

// pair makes a terminal: the side that a person has, and the program's.
func pair(t *testing.T) (pty, tty *os.File) {
	t.Helper()
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(pty.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 200}); err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return pty, tty
}

func (s *terminal) read() {
	buffer := make([]byte, 4096)
	for {
		n, err := s.pty.Read(buffer)
		if err != nil {
			return // closed
		}
		s.mu.Lock()
		s.text.Write(buffer[:n])
		s.mu.Unlock()
	}
}

func (s *terminal) write(text string) {
	s.t.Helper()
	if _, err := s.pty.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

var control = regexp.MustCompile(`\x1b(\[[0-9;?>=]*[A-Za-z]|\][^\x07]*\x07|[()][A-Z0-9]|.)|[\r\x0e\x0f]`)

// await waits until text is shown. What had come until the last call does not count.
func (s *terminal) await(text string) {
	s.t.Helper()
	harness.Await(s.t, shellTime, fmt.Sprintf("%q on the terminal", text), func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		all := s.text.String()
		if shown := control.ReplaceAllString(all[s.seen:], ""); !strings.Contains(shown, text) {
			return fmt.Errorf("it shows %q", shown)
		}
		s.seen = len(all)
		return nil
	})
}

// complete types a line, presses Tab, awaits what the shell adds, and clears the line.
func (s *terminal) complete(line, rest string) {
	s.t.Helper()
	s.write(line)
	s.await(line)
	s.write("\t")
	s.await(rest)
	s.write("\x15") // Ctrl-U
}
