package reap

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// siginfo is the kernel's siginfo_t of 64-bit Linux as waitid fills it; the
// library's type keeps these fields to itself.
type siginfo struct {
	signo, errno, code, _ int32
	pid                   int32
	_                     [108]byte
}

func (s *siginfo) raw() *unix.Siginfo { return (*unix.Siginfo)(unsafe.Pointer(s)) }

var _ [unsafe.Sizeof(siginfo{})]byte = [unsafe.Sizeof(unix.Siginfo{})]byte{}
