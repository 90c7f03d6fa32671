"""Prints what a cell costs. Run with -s to see it; nothing is asserted about time."""

from __future__ import annotations

import statistics
import time

from .client import KernelClient

_BASELINE = """
import time
from IPython.core.interactiveshell import InteractiveShell
def _measure(n=300):
    ip, took = get_ipython(), []
    post = ip.post
    ip.post = lambda *a, **k: None
    try:
        for _ in range(n):
            t = time.perf_counter()
            ip.run_cell("1+1", store_history=True)
            took.append(time.perf_counter() - t)
    finally:
        ip.post = post
    return sorted(took)[n // 2] * 1e3
_measure()
"""


def test_print_latency(kernel: KernelClient) -> None:
    kernel.run("1+1")
    took = []
    for _ in range(300):
        start = time.perf_counter()
        cell = kernel.run("1+1")
        took.append((time.perf_counter() - start) * 1e3)
        assert cell.text == "2"
    baseline = float(kernel.run(_BASELINE).text)
    p50 = statistics.median(took)
    p99 = statistics.quantiles(took, n=100)[98]
    print(
        f"\n1+1 through the kernel: p50 {p50:.3f} ms, p99 {p99:.3f} ms;"
        f" run_cell alone: p50 {baseline:.3f} ms"
    )
