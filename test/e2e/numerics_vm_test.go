//go:build vm

package e2e

import (
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
