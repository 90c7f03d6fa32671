package harness

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// settleTime is for what ends a moment after its cause: an orphan's zombie, a mount.
const settleTime = 20 * time.Second

// cgroupParent is the folder of all machines' control groups, in each hierarchy.
const cgroupParent = "pandastack"

// watchDir asserts, when the test ends, that nothing of a data directory is
// left, and ends what is.
func watchDir(t testing.TB, dir string) {
	groups := cgroups()
	t.Cleanup(func() {
		if err := await(settleTime, func() error { return leftovers(dir, groups) }); err != nil {
			t.Errorf("left behind: %v", err)
		}
		if t.Failed() {
			t.Logf("what the server says went wrong:\n%s%s\nits log:\n%s", warnings(logFile(dir)), failedStarts(dir), tail(logFile(dir)))
		}
		sweep(dir)
		for _, g := range emptied(dir, groups) {
			_ = os.Remove(g)
		}
	})
}

// tail gives a log's last part.
func tail(path string) []byte {
	const enough = 8 << 10
	text, _ := os.ReadFile(path) // missing where no server was started
	return text[max(0, len(text)-enough):]
}

// warnings gives a log's lines that tell of a failure, the last ones.
func warnings(path string) string {
	const enough = 20
	text, _ := os.ReadFile(path)
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-enough):], "")
}

// failedStarts gives the last parts of the logs of the machines that did not start.
func failedStarts(dir string) string {
	var all strings.Builder
	logs, _ := filepath.Glob(filepath.Join(dir, "logs", "*", "*")) // the pattern is well-formed
	for _, path := range logs {
		fmt.Fprintf(&all, "%s:\n%s\n", path, tail(path))
	}
	return all.String()
}

// Clean waits until nothing but the server itself is left of its data directory.
func (s *Server) Clean(t testing.TB) {
	t.Helper()
	Await(t, settleTime, "processes, mounts and run folders to go", func() error {
		return remains(s.Dir, s.PID())
	})
}

func leftovers(dir string, groups []string) error {
	var errs []error
	for _, g := range emptied(dir, groups) {
		errs = append(errs, fmt.Errorf("cgroup %s", g))
	}
	return errors.Join(append(errs, remains(dir, 0))...)
}

// remains lists processes (but for one), mounts and run folders of a data directory.
func remains(dir string, but int) error {
	var errs []error
	for _, p := range Processes(dir) {
		if p.PID != but {
			errs = append(errs, fmt.Errorf("process %v", p))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	errs = append(errs, err)
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, dir+"/") {
			errs = append(errs, fmt.Errorf("mount %s", strings.TrimSpace(line)))
		}
	}
	for _, sub := range []string{"runs", "saves", "tmp"} {
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, e := range entries {
			errs = append(errs, fmt.Errorf("folder %s/%s", sub, e.Name()))
		}
	}
	return errors.Join(errs...)
}

// sweep ends the processes of a data directory, so that one failed test does
// not spoil the next.
func sweep(dir string) {
	_ = await(settleTime, func() error {
		left := Processes(dir)
		for _, p := range left {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
		if len(left) > 0 {
			return fmt.Errorf("%d processes", len(left))
		}
		return nil
	})
}

// cgroups lists the machines' control groups on this host, also those of other servers.
func cgroups() []string {
	var all []string
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		found, _ := filepath.Glob(pattern + cgroupParent + "/*/cgroup.procs") // the pattern is well-formed
		for _, f := range found {
			all = append(all, filepath.Dir(f))
		}
	}
	return all
}

// emptied lists the groups without a process that were not there before and
// belong to a machine of this data directory: its log names it, or it was there
// when the server was ended.
func emptied(dir string, before []string) []string {
	log, _ := os.ReadFile(logFile(dir))
	seen, _ := os.ReadFile(seenFile(dir)) // either is missing where no server was started or ended
	var left []string
	for _, g := range cgroups() {
		id := filepath.Base(g)
		ours := strings.Contains(string(log), id) || strings.Contains(string(seen), id)
		procs, err := os.ReadFile(filepath.Join(g, "cgroup.procs"))
		if err == nil && len(procs) == 0 && ours && !slices.Contains(before, g) {
			left = append(left, g)
		}
	}
	return left
}

func seenFile(dir string) string { return dir + ".seen" }

// remember notes the machines there are, for those that no log will name.
func remember(dir string) error {
	f, err := os.OpenFile(seenFile(dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for _, p := range Processes(dir) {
		if p.IsVMM() {
			_, err = fmt.Fprintln(f, p.Args)
		}
	}
	return errors.Join(err, f.Close())
}
