//go:build vm

package e2e

import (
	"strings"
	"testing"

	"pandastack/test/harness"
)

// sortCell sorts arrays of many lengths and types and prints what came out wrong.
// An emulated CPU may offer vector instructions that it computes wrong: NumPy
// then sorts, and pandas groups, without any error and with wrong answers.
const sortCell = `
import random
import numpy as np
wrong = []
for kind in ("int64", "uint64", "float64", "int32", "float32"):
    for length in [*range(2, 70), 100, 255, 256, 257, 1000, 4248]:
        a = np.array([random.randrange(max(2, length // 3)) for _ in range(length)], dtype=kind)
        order = np.argsort(a)
        if sorted(order.tolist()) != list(range(length)) or (np.diff(a[order].astype("float64")) < 0).any():
            wrong.append(("argsort", kind, length))
        if np.sort(a).tolist() != sorted(a.tolist()):
            wrong.append(("sort", kind, length))
x = np.random.default_rng(1).random((120, 80))
if not np.allclose(x @ x.T, np.einsum("ik,jk->ij", x, x)):
    wrong.append("matrix product")
print(wrong)
`

func TestNumericsAreRight(t *testing.T) {
	s := harness.Start(t, harness.NewDir(t))
	box := s.NewSandbox(t).ID
	if got := s.Run(t, box, s.NewContext(t, box), sortCell).Stdout; got != "[]\n" {
		t.Errorf("wrong: %s", got)
	}
}

// flagsCell runs cmpxchg16b after other arithmetic and prints which flags came out
// that no user program can have set, and whether the guest's kernel uses it. The code:
//
//	push rbx; mov r8, rdi; mov r9, 0xffff8880042ed3c0
//	push 0x202; popf; jmp +0; xor r10d, r10d; jmp +0; push 0x202; popf; jmp +0
//	mov r11d, 1; add r11, r9; mov rax, [r8]; mov rdx, [r8+8]; mov rbx, rax; mov rcx, rdx
//	xor rbx, r10; cmpxchg16b [r8]; jmp +0; pushf; pop rax; pop rbx; ret
const flagsCell = `
import ctypes, mmap
code = bytes.fromhex(
    "534989f849b9c0d32e048088ffff68020200009deb004531d2eb0068020200009deb00"
    "41bb010000004d01cb498b00498b50084889c34889d14c31d3490fc708eb009c585bc3")
text = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
text.write(code)
run = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(ctypes.addressof(ctypes.c_char.from_buffer(text)))
words = mmap.mmap(-1, 4096)
at = ctypes.addressof(ctypes.c_char.from_buffer(words))
wrong = [hex(flags) for flags in (run(at) for _ in range(3)) if flags & ~0x246]
kernel = any("cx16" in line.split() for line in open("/proc/cpuinfo"))
print("wrong flags:", wrong, "kernel uses it:", kernel)
`

// TestKernelAvoidsWrongFlags: where the emulated CPU leaves wrong flags behind, an
// interrupt before the next comparison would kill the guest's kernel.
func TestKernelAvoidsWrongFlags(t *testing.T) {
	s := harness.Start(t, harness.NewDir(t))
	box := s.NewSandbox(t).ID
	got := s.Run(t, box, s.NewContext(t, box), flagsCell).Stdout
	if !strings.HasPrefix(got, "wrong flags: ") {
		t.Fatalf("got %q", got)
	}
	if !strings.HasPrefix(got, "wrong flags: []") && !strings.HasSuffix(got, "kernel uses it: False\n") {
		t.Error(got)
	}
}
