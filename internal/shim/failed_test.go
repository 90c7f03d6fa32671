package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pandastack/internal/guestproto"
	"pandastack/internal/vmm"
)

// chatty is a machine that has ended, or runs and tells more than it may.
type chatty struct {
	vmm.Machine
	ended chan struct{}
}

func (m *chatty) Done() <-chan struct{} { return m.ended }
func (m *chatty) Err() error            { return errors.New("the VMM ended: killed") }
func (m *chatty) Inspect(_ context.Context, w io.Writer) {
	for range 2 * startLogLimit / 64 {
		_, _ = fmt.Fprintf(w, "%64s", "register")
	}
}

func TestAFailedStartSaysWhy(t *testing.T) {
	p := &process{spec: Spec{Dir: t.TempDir()}}
	steps := &stepTimer{steps: []guestproto.Step{{Name: "vmm", MS: 12}, {Name: "cont", MS: 3}}}
	cause := errors.New("no answer")
	m := &chatty{ended: make(chan struct{})}
	if err := p.explain(t.Context(), cause, m, steps); !errors.Is(err, cause) || !strings.Contains(err.Error(), "vmm 12 ms, cont 3 ms") {
		t.Errorf("a machine that runs: %v", err)
	}
	log, err := os.ReadFile(filepath.Join(p.spec.Dir, startLog))
	if err != nil || !strings.Contains(string(log), "no answer") || !strings.Contains(string(log), "register") {
		t.Errorf("%s: %.200q, %v", startLog, log, err)
	}
	if len(log) > startLogLimit+1<<10 {
		t.Errorf("%s has %d bytes", startLog, len(log))
	}
	close(m.ended)
	if err := p.explain(t.Context(), cause, m, steps); !errors.Is(err, cause) || !strings.Contains(err.Error(), "killed") {
		t.Errorf("a machine that ended: %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.explain(cancelled, cause, nil, steps); err != cause {
		t.Errorf("a start that was called off: %v", err)
	}
}
