// Package usage reads what the guest uses and readies it for a snapshot.
package usage

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"pandastack/internal/guestproto"
)

// ticksPerSecond is USER_HZ, which is 100 on every Linux this runs on.
const ticksPerSecond = 100

// Stats implements guestproto.Guest.
func Stats() (guestproto.Stats, error) {
	var s guestproto.Stats
	var fs unix.Statfs_t
	if err := unix.Statfs("/", &fs); err != nil {
		return s, os.NewSyscallError("statfs", err)
	}
	s.DiskTotal = int64(fs.Blocks) * fs.Bsize
	s.DiskFree = int64(fs.Bavail) * fs.Bsize
	for path, read := range map[string]func(*guestproto.Stats, []byte){
		"/proc/meminfo": memory,
		"/proc/stat":    cpu,
		"/proc/uptime":  uptime,
		"/proc/loadavg": processes,
	} {
		b, err := os.ReadFile(path)
		if err != nil {
			return s, err
		}
		read(&s, b)
	}
	return s, nil
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
func Quiesce(machine bool) error {
	unix.Sync()
	if !machine {
		return nil
	}
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0); err != nil {
		return fmt.Errorf("quiesce: %w", err)
	}
	return nil
}
