package qemu

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// inspectTime bounds the questions to a QEMU that may hang.
const inspectTime = 5 * time.Second

// inspections are lines of QEMU's human monitor that tell what a machine waits
// for: where its processor is, which interrupts are pending, and whether its ports
// are open at both ends.
var inspections = []string{"info status", "info cpus", "info registers", "info lapic", "info pic", "info qtree"}

// inspectAgain is how long after the first look the threads are looked at once
// more: what they used meanwhile tells one that spins from one that waits.
const inspectAgain = time.Second

// Inspect implements vmm.Inspector. The threads come first: for them the host
// answers even when QEMU does not.
func (m *machine) Inspect(ctx context.Context, w io.Writer) {
	inspectThreads(w, m.PID())
	m.inspectGuest(ctx, w)
	time.Sleep(inspectAgain)
	inspectThreads(w, m.PID())
}

func (m *machine) inspectGuest(ctx context.Context, w io.Writer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), inspectTime)
	defer cancel()
	for _, line := range inspections {
		var text string
		if err := m.mon.run(ctx, "human-monitor-command", map[string]any{"command-line": line}, &text); err != nil {
			section(w, line, err.Error())
			return
		}
		section(w, line, strings.ReplaceAll(text, "\r", ""))
	}
}

// inspectThreads tells each thread's state and processor time (the 3rd, 14th and
// 15th field of stat), and what it waits for in the host's kernel.
func inspectThreads(w io.Writer, pid int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, task := range tasks {
		for _, name := range []string{"stat", "wchan", "syscall"} {
			text, err := os.ReadFile(filepath.Join(task, name))
			if err != nil {
				text = []byte(err.Error())
			}
			section(w, "thread "+filepath.Base(task)+" "+name, string(text))
		}
	}
}

func section(w io.Writer, name, text string) {
	_, _ = fmt.Fprintf(w, "## %s\n%s\n", name, strings.TrimSpace(text))
}
