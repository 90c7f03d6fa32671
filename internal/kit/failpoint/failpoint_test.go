package failpoint

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestMain is also the process that hits points.
func TestMain(m *testing.M) {
	if spec, ok := os.LookupEnv("HIT"); ok {
		Arm("server", spec)
		for _, name := range []string{"a", "b", "a", "b"} {
			Hit(name)
			_, _ = os.Stdout.WriteString(name)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestHit(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	for _, c := range []struct {
		spec, printed string
		killed        bool
	}{
		{"", "abab", false},
		{"shim/a", "abab", false},
		{"server/c", "abab", false},
		{"server/a", "", true},
		{"server/a:2", "ab", true},
		{"server/b:3", "abab", false},
		{"trace=" + trace, "abab", false},
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "HIT="+c.spec)
		out, err := cmd.Output()
		if string(out) != c.printed || wasKilled(err) != c.killed {
			t.Errorf("%q: printed %q, ended with %v", c.spec, out, err)
		}
	}
	if text, err := os.ReadFile(trace); strings.Count(string(text), " server/b\n") != 2 {
		t.Errorf("the trace is %q, %v", text, err)
	}
}

func wasKilled(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
}
