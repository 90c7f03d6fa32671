// Package usage reads what the guest uses and readies it for a snapshot.
package usage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pandastack/internal/guestproto"
)

// ticksPerSecond is USER_HZ, which is 100 on every Linux this runs on.
const ticksPerSecond = 100

// Meter counts processor time and uptime from its last Reset; the kernel counts
// from the boot, which for a restored machine was its template's.
type Meter struct {
	mu         sync.Mutex
	cpu, begin float64 // what the kernel had counted then, seconds
	failed     error   // of the last Reset
}

// Reset begins anew. It returns at once, for whoever resumes a machine waits for
// it; Stats wait until it is done.
func (m *Meter) Reset() {
	m.mu.Lock()
	go func() {
		defer m.mu.Unlock()
		var s guestproto.Stats
		if m.failed = read(&s, map[string]reader{"/proc/stat": cpu, "/proc/uptime": uptime}); m.failed == nil {
			m.cpu, m.begin = s.CPUSeconds, s.Uptime
		}
	}()
}

// Stats implements guestproto.Guest.
func (m *Meter) Stats() (guestproto.Stats, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := total()
	s.CPUSeconds -= m.cpu
	s.Uptime -= m.begin
	return s, errors.Join(m.failed, err)
}

// total counts from the boot.
func total() (guestproto.Stats, error) {
	var s guestproto.Stats
	var fs unix.Statfs_t
	if err := unix.Statfs("/", &fs); err != nil {
		return s, os.NewSyscallError("statfs", err)
	}
	s.DiskTotal = int64(fs.Blocks) * fs.Bsize
	s.DiskFree = int64(fs.Bavail) * fs.Bsize
	return s, read(&s, map[string]reader{
		"/proc/meminfo": memory,
		"/proc/stat":    cpu,
		"/proc/uptime":  uptime,
		"/proc/loadavg": processes,
	})
}

// reader takes what it knows from a file of /proc.
type reader func(*guestproto.Stats, []byte)

func read(s *guestproto.Stats, files map[string]reader) error {
	for path, take := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		take(s, b)
	}
	return nil
}

func memory(s *guestproto.Stats, b []byte) {
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch string(f[0]) {
		case "MemTotal:":
			s.MemTotal = number(f[1]) << 10
		case "MemAvailable:":
			s.MemAvailable = number(f[1]) << 10
		}
	}
}

// cpu adds user, nice, system, irq, softirq: all but idle, iowait and stolen time.
func cpu(s *guestproto.Stats, b []byte) {
	f := bytes.Fields(b[:max(bytes.IndexByte(b, '\n'), 0)])
	if len(f) < 8 {
		return
	}
	ticks := number(f[1]) + number(f[2]) + number(f[3]) + number(f[6]) + number(f[7])
	s.CPUSeconds = float64(ticks) / ticksPerSecond
}

func uptime(s *guestproto.Stats, b []byte) {
	if f := bytes.Fields(b); len(f) > 0 {
		s.Uptime, _ = strconv.ParseFloat(string(f[0]), 64)
	}
}

// processes reads the total of "running/total".
func processes(s *guestproto.Stats, b []byte) {
	if f := bytes.Fields(b); len(f) > 3 {
		_, total, _ := strings.Cut(string(f[3]), "/")
		s.Processes = int(number([]byte(total)))
	}
}

func number(b []byte) int64 {
	n, _ := strconv.ParseInt(string(b), 10, 64)
	return n
}

// Quiesce writes everything to the disks and gives up the page cache, which
// would only make a snapshot larger. Outside a machine of its own it syncs.
func Quiesce(ctx context.Context, machine bool) error {
	unix.Sync()
	if !machine {
		return nil
	}
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0); err != nil {
		return fmt.Errorf("quiesce: %w", err)
	}
	return freed(ctx)
}

const (
	freeingLook  = 20 * time.Millisecond
	freeingQuiet = 10 // looks without a change
	freeingLimit = 5 * time.Second
)

// freed waits until free memory stays the same: the kernel frees what was dropped
// later (RCU), and clears it. After a restore each machine would do so for itself,
// in pages of its own.
func freed(ctx context.Context) error {
	var last uint64
	for begun, same := time.Now(), 0; same < freeingQuiet && time.Since(begun) < freeingLimit; same++ {
		var now unix.Sysinfo_t
		if err := unix.Sysinfo(&now); err != nil {
			return fmt.Errorf("quiesce: %w", err)
		}
		if now.Freeram != last {
			last, same = now.Freeram, 0
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(freeingLook):
		}
	}
	return nil
}
