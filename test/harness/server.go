// Package harness runs the real server as a process on a data directory of its
// own, and holds it to leaving nothing behind.
package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"pandastack/client"
)

// Deadlines are for a busy machine without hardware virtualisation.
const (
	startTime = 90 * time.Second
	stopTime  = 60 * time.Second
)

// Server is one process of the server. When the test ends its sandboxes and
// snapshots are removed and it is stopped.
type Server struct {
	*client.Client
	Dir string
	URL string
	Key string

	cmd    *exec.Cmd
	exited chan struct{} // closed when the process is gone
}

// Start runs the server on a data directory until the test ends. environment is
// put over the test's own.
func Start(t testing.TB, dir string, environment ...string) *Server {
	t.Helper()
	s, err := TryStart(t, dir, environment...)
	if err != nil {
		t.Fatalf("start the server: %v", err)
	}
	return s
}

// TryStart is Start for a server that may end before it listens.
func TryStart(t testing.TB, dir string, environment ...string) (*Server, error) {
	t.Helper()
	log, err := os.OpenFile(logFile(dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s := &Server{Dir: dir, cmd: command(dir, environment, "serve"), exited: make(chan struct{})}
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("start the server: %v", err)
	}
	go func() {
		defer close(s.exited)
		_ = s.cmd.Wait() // how it ended is of interest to nobody
	}()
	t.Cleanup(func() { s.Stop(t) })
	if err := await(startTime, s.announced); err != nil {
		return s, err
	}
	s.Client = client.New(s.URL, s.Key, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}})
	t.Cleanup(func() { s.close(t) })
	return s, nil
}

// command is one of the program's on a data directory and a free port. No machine
// waits ready unless environment asks for it: tests count machines.
func command(dir string, environment []string, args ...string) *exec.Cmd {
	cmd := exec.Command(Binary(), append(args, "--data-dir", dir)...)
	cmd.Env = append(append(os.Environ(), "PANDASTACK_LISTEN=127.0.0.1:0", "PANDASTACK_POOL_MAX=0"), environment...)
	return cmd
}

// Refused runs the server where it must not start, and gives what it printed.
func Refused(t testing.TB, dir string, environment []string, args ...string) string {
	t.Helper()
	cmd := command(dir, environment, append([]string{"serve"}, args...)...)
	timer := time.AfterFunc(startTime, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("the server ended with %v, want exit code 1\n%s", err, out)
	}
	return string(out)
}

// Binary is the program under test.
func Binary() string {
	if path := os.Getenv("PANDASTACK_TEST_BINARY"); path != "" {
		return path
	}
	return filepath.Join(Root(), "bin", "pandastack")
}

// Root is the repository: the folder above a test's with go.mod in it.
func Root() string {
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return "."
}

func logFile(dir string) string { return dir + ".log" }

// announced reads where the server listens, and its key.
func (s *Server) announced() error {
	select {
	case <-s.exited:
		text, _ := os.ReadFile(logFile(s.Dir))
		return Never(fmt.Errorf("the server ended: %s", text))
	default:
	}
	var a struct {
		URL     string `json:"url"`
		PID     int    `json:"pid"`
		KeyFile string `json:"key_file"`
	}
	text, err := os.ReadFile(filepath.Join(s.Dir, "server.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return err
	}
	if a.PID != s.PID() {
		return fmt.Errorf("server.json is of process %d, want %d", a.PID, s.PID())
	}
	key, err := os.ReadFile(a.KeyFile)
	s.URL, s.Key = a.URL, strings.TrimSpace(string(key))
	return err
}

// close removes the sandboxes and stops the server, unless it was ended before.
func (s *Server) close(t testing.TB) {
	t.Helper()
	select {
	case <-s.exited:
		return
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	boxes, err := s.Sandboxes(ctx)
	for _, box := range boxes {
		err = errors.Join(err, s.DeleteSandbox(ctx, box.ID))
	}
	snapshots, unlisted := s.Snapshots(ctx)
	err = errors.Join(err, unlisted)
	for _, sn := range snapshots {
		err = errors.Join(err, s.DeleteSnapshot(ctx, sn.ID))
	}
	if err != nil {
		t.Errorf("remove sandboxes and snapshots: %v", err)
	}
	s.Stop(t)
}

// PID of the server process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Stop asks the server to end and waits for that; sandboxes go on. It is fine
// on one that has ended.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	s.end(t, syscall.SIGTERM)
}

// Ended is closed when the process is gone, however it ended.
func (s *Server) Ended() <-chan struct{} { return s.exited }

// Kill ends the server as a crash would.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.end(t, syscall.SIGKILL)
}

func (s *Server) end(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := remember(s.Dir); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("signal the server: %v", err)
	}
	select {
	case <-s.exited:
	case <-time.After(stopTime):
		_ = s.cmd.Process.Kill()
		<-s.exited
		t.Errorf("the server did not end within %v of %v", stopTime, signal)
	}
}
