//go:build vm

package qemu

import (
	"encoding/json"
	"fmt"

	"golang.org/x/sys/unix"
)

// probeCommand makes this binary the prober of the jail test.
const probeCommand = "probe-jail"

func init() { helpers[probeCommand] = probeJail }

// probeTask is what the prober is to try, and in which VMM.
type probeTask struct {
	PID, Outside     int // the VMM; some process outside of its jail
	BaseFD, MemoryFD int // the VMM's descriptors of template disk and memory
	Port             int // where the host listens
	Binary           string
}

// probeJail makes the VMM try what an attacker who has taken it over would try
// and prints a line for each attempt. The last one ends the VMM.
func probeJail(args []string) error {
	var task probeTask
	if err := json.Unmarshal([]byte(args[0]), &task); err != nil {
		return err
	}
	in := inject(task.PID)
	tell := func(what string, nr uint64, args ...any) {
		result, died := in.call(nr, args...)
		switch {
		case died:
			fmt.Printf("%s: refused by the filter\n", what)
		case result < 0:
			fmt.Printf("%s: refused, %v\n", what, unix.Errno(-result))
		default:
			fmt.Printf("%s: %d\n", what, result)
		}
	}
	tell("getpid", unix.SYS_GETPID)
	tell("getuid", unix.SYS_GETUID)
	tell("write the template's disk", unix.SYS_PWRITE64, task.BaseFD, []byte("x"), 1, 0)
	tell("open the template's disk for writing", unix.SYS_OPEN, fmt.Sprintf("/proc/self/fd/%d", task.BaseFD), unix.O_RDWR, 0)
	tell("write the template's memory", unix.SYS_PWRITE64, task.MemoryFD, []byte("x"), 1, 0)
	tell("shrink the template's memory", unix.SYS_FTRUNCATE, task.MemoryFD, 0)
	tell("see another process", unix.SYS_OPEN, fmt.Sprintf("/proc/%d/status", task.Outside), unix.O_RDONLY, 0)
	tell("signal another process", unix.SYS_KILL, task.Outside, 0)
	tell("read the host's files", unix.SYS_OPEN, "/etc/passwd", unix.O_RDONLY, 0)
	tell("read the host's kernel settings", unix.SYS_OPEN, "/proc/sys/kernel/hostname", unix.O_RDONLY, 0)
	tell("make a file", unix.SYS_OPEN, "/dev/x", unix.O_CREAT|unix.O_WRONLY, 0o600)
	tell("change its program", unix.SYS_OPEN, task.Binary, unix.O_WRONLY, 0)
	if fd, _ := in.call(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 0); fd >= 0 {
		tell("reach the host's network", unix.SYS_CONNECT, int(fd), sockaddr(task.Port), 16)
	} else {
		fmt.Printf("reach the host's network: refused, no socket: %v\n", unix.Errno(-fd))
	}
	tell("run a program", unix.SYS_EXECVE, task.Binary, 0, 0)
	return nil
}
