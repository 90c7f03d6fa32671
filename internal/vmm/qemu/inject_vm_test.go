//go:build vm

package qemu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// injector makes a running VMM execute system calls of our choice, so that a
// test sees the jail from inside: same uid, namespaces, root and seccomp filter.
type injector struct {
	t       *testing.T
	pid     int
	syscall uint64 // address of a syscall instruction in the process
	scratch uint64 // address of memory that may be overwritten
	saved   unix.PtraceRegs
}

// inject stops the process. The test must stay on this thread until detach.
func inject(t *testing.T, pid int) *injector {
	t.Helper()
	runtime.LockOSThread()
	if err := unix.PtraceSeize(pid); err != nil {
		t.Fatalf("attach to %d: %v", pid, err)
	}
	if err := unix.PtraceInterrupt(pid); err != nil {
		t.Fatalf("interrupt %d: %v", pid, err)
	}
	in := &injector{t: t, pid: pid}
	in.waitStop()
	if err := unix.PtraceGetRegs(pid, &in.saved); err != nil {
		t.Fatal(err)
	}
	in.syscall = in.findSyscall()
	in.scratch = in.saved.Rsp - 64<<10 // far below the red zone
	return in
}

func (in *injector) waitStop() {
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(in.pid, &status, unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			in.t.Fatalf("wait for %d: %v", in.pid, err)
		}
		return
	}
}

// findSyscall looks for the instruction in the C library's code.
func (in *injector) findSyscall() uint64 {
	in.t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", in.pid))
	if err != nil {
		in.t.Fatal(err)
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", in.pid))
	if err != nil {
		in.t.Fatal(err)
	}
	defer mem.Close()
	for _, line := range strings.Split(string(maps), "\n") {
		if !strings.Contains(line, "r-xp") || !strings.Contains(line, "libc.so") {
			continue
		}
		from, to, _ := strings.Cut(strings.Fields(line)[0], "-")
		start, _ := strconv.ParseUint(from, 16, 64)
		end, _ := strconv.ParseUint(to, 16, 64)
		code := make([]byte, end-start)
		if _, err := mem.ReadAt(code, int64(start)); err != nil {
			in.t.Fatal(err)
		}
		if i := bytes.Index(code, []byte{0x0f, 0x05}); i >= 0 {
			return start + uint64(i)
		}
	}
	in.t.Fatal("no syscall instruction in the VMM's C library")
	return 0
}

// call executes one system call. Strings and byte slices are put into the
// process's memory and passed by address. died is true when the seccomp filter
// ended the process instead.
func (in *injector) call(nr uint64, args ...any) (result int64, died bool) {
	in.t.Helper()
	regs := in.saved
	regs.Rip, regs.Rax, regs.Orig_rax = in.syscall, nr, ^uint64(0)
	slots := []*uint64{&regs.Rdi, &regs.Rsi, &regs.Rdx, &regs.R10, &regs.R8, &regs.R9}
	at := in.scratch
	for i, a := range args {
		switch v := a.(type) {
		case int:
			*slots[i] = uint64(v)
		case string:
			*slots[i] = in.poke(&at, append([]byte(v), 0))
		case []byte:
			*slots[i] = in.poke(&at, v)
		}
	}
	if err := unix.PtraceSetRegs(in.pid, &regs); err != nil {
		in.t.Fatal(err)
	}
	if err := unix.PtraceSingleStep(in.pid); err != nil {
		in.t.Fatal(err)
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(in.pid, &status, unix.WALL, nil); err != nil {
		in.t.Fatal(err)
	}
	if status.Exited() || status.Signaled() || status.Stopped() && status.StopSignal() == unix.SIGSYS {
		return 0, true
	}
	if err := unix.PtraceGetRegs(in.pid, &regs); err != nil {
		in.t.Fatal(err)
	}
	return int64(regs.Rax), false
}

func (in *injector) poke(at *uint64, data []byte) uint64 {
	addr := *at
	if _, err := unix.PtracePokeData(in.pid, uintptr(addr), data); err != nil {
		in.t.Fatal(err)
	}
	*at += uint64(len(data)+15) &^ 15
	return addr
}

// detach lets the process go on as if nothing had happened.
func (in *injector) detach() {
	_ = unix.PtraceSetRegs(in.pid, &in.saved)
	_ = unix.PtraceDetach(in.pid)
	runtime.UnlockOSThread()
}

// sockaddr is 127.0.0.1:port as the kernel takes it.
func sockaddr(port int) []byte {
	b := make([]byte, unsafe.Sizeof(unix.RawSockaddrInet4{}))
	binary.NativeEndian.PutUint16(b, unix.AF_INET)
	binary.BigEndian.PutUint16(b[2:], uint16(port))
	copy(b[4:], []byte{127, 0, 0, 1})
	return b
}
