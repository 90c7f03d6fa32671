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
	"unsafe"

	"golang.org/x/sys/unix"
)

// injector makes a running VMM execute system calls of our choice, so that a
// test sees the jail from inside: same uid, namespaces, root and seccomp filter.
// It has to run in a process that is not the VMM's parent, whose wait for the
// end would take the stops that are meant for the tracer.
type injector struct {
	pid     int
	syscall uint64 // address of a syscall instruction in the process
	scratch uint64 // address of memory that may be overwritten
	saved   unix.PtraceRegs
}

// inject stops the process, which goes on when the calling process ends. A
// failure panics: this is a program of its own.
func inject(pid int) *injector {
	runtime.LockOSThread() // a tracer is a thread
	must(unix.PtraceSeize(pid))
	must(unix.PtraceInterrupt(pid))
	in := &injector{pid: pid}
	in.wait()
	must(unix.PtraceGetRegs(pid, &in.saved))
	in.syscall = in.findSyscall()
	in.scratch = in.saved.Rsp - 64<<10 // far below the red zone
	return in
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (in *injector) wait() (status unix.WaitStatus) {
	for {
		_, err := unix.Wait4(in.pid, &status, unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		must(err)
		return status
	}
}

// findSyscall looks for the instruction in the C library's code.
func (in *injector) findSyscall() uint64 {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", in.pid))
	must(err)
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", in.pid))
	must(err)
	defer mem.Close()
	for _, line := range strings.Split(string(maps), "\n") {
		if !strings.Contains(line, "r-xp") || !strings.Contains(line, "libc.so") {
			continue
		}
		from, to, _ := strings.Cut(strings.Fields(line)[0], "-")
		start, _ := strconv.ParseUint(from, 16, 64)
		end, _ := strconv.ParseUint(to, 16, 64)
		code := make([]byte, end-start)
		_, err := mem.ReadAt(code, int64(start))
		must(err)
		if i := bytes.Index(code, []byte{0x0f, 0x05}); i >= 0 {
			return start + uint64(i)
		}
	}
	panic("no syscall instruction in the VMM's C library")
}

// call executes one system call. Strings and byte slices are put into the
// process's memory and passed by address. died is true when the seccomp filter
// ended the process instead.
func (in *injector) call(nr uint64, args ...any) (result int64, died bool) {
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
	must(unix.PtraceSetRegs(in.pid, &regs))
	must(unix.PtraceSingleStep(in.pid))
	status := in.wait()
	if status.Exited() || status.Signaled() || status.Stopped() && status.StopSignal() == unix.SIGSYS {
		return 0, true
	}
	must(unix.PtraceGetRegs(in.pid, &regs))
	return int64(regs.Rax), false
}

func (in *injector) poke(at *uint64, data []byte) uint64 {
	addr := *at
	_, err := unix.PtracePokeData(in.pid, uintptr(addr), data)
	must(err)
	*at += uint64(len(data)+15) &^ 15
	return addr
}

// sockaddr is 127.0.0.1:port as the kernel takes it.
func sockaddr(port int) []byte {
	b := make([]byte, unsafe.Sizeof(unix.RawSockaddrInet4{}))
	binary.NativeEndian.PutUint16(b, unix.AF_INET)
	binary.BigEndian.PutUint16(b[2:], uint16(port))
	copy(b[4:], []byte{127, 0, 0, 1})
	return b
}
