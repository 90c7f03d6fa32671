package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"pandastack/internal/vmm"
)

const (
	// startLog says of each start that failed what its machine did at that moment.
	startLog = "start.log"
	// startLogLimit bounds what it says of one, in bytes.
	startLogLimit = 128 << 10
	// endNotice is how long a VMM that broke off takes to be seen ended.
	endNotice = time.Second
)

// explain adds to a failed start's error how far it came and how the VMM ended, if
// it did, and keeps in the run folder what the machine does, which is about to be
// ended: m is nil where there is none. A start that was called off needs no reason.
func (p *process) explain(ctx context.Context, err error, m vmm.Machine, steps *stepTimer) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	err = fmt.Errorf("%w (done: %s)", err, steps)
	if m == nil {
		return err
	}
	select {
	case <-m.Done():
		return fmt.Errorf("%w: %w", m.Err(), err)
	case <-time.After(endNotice):
	}
	if i, ok := m.(vmm.Inspector); ok {
		p.keepInspection(ctx, err, i)
	}
	return err
}

// keepInspection is of no consequence where it fails.
func (p *process) keepInspection(ctx context.Context, reason error, m vmm.Inspector) {
	f, err := os.OpenFile(filepath.Join(p.spec.Dir, startLog), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = fmt.Fprintf(f, "# %s %v\n", time.Now().UTC().Format(time.RFC3339Nano), reason)
	m.Inspect(ctx, &atMost{f, startLogLimit})
}

// atMost drops what is written past its limit.
type atMost struct {
	w    io.Writer
	left int
}

func (a *atMost) Write(b []byte) (int, error) {
	n := min(len(b), a.left)
	a.left -= n
	_, err := a.w.Write(b[:n])
	return len(b), err
}
