// Package session signals whole process groups and sessions.
package session

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Signal sends sig to the process group that pid leads, or to pid alone where
// it leads none.
func Signal(pid int, sig unix.Signal) error {
	err := unix.Kill(-pid, sig)
	if errors.Is(err, unix.ESRCH) {
		err = unix.Kill(pid, sig)
	}
	if errors.Is(err, unix.ESRCH) {
		return nil // it has ended
	}
	return os.NewSyscallError("kill", err)
}

// Kill ends every process of the session that pid leads, background groups
// included.
func Kill(pid int) error {
	err := Signal(pid, unix.SIGKILL)
	for _, member := range members(pid) {
		_ = unix.Kill(member, unix.SIGKILL)
	}
	return err
}

// members lists the processes of session sid.
func members(sid int) []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1)
	var pids []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err == nil && sessionOf(name) == sid {
			pids = append(pids, pid)
		}
	}
	return pids
}

// sessionOf reads field 6 of a process's stat; its name, in parentheses, may
// hold anything.
func sessionOf(pid string) int {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 4 {
		return 0
	}
	sid, _ := strconv.Atoi(string(fields[3]))
	return sid
}
