"""Samples, and the report that is made of them."""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Samples:
    """What was measured of one thing. A sample that failed is counted, never left out."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.values: list[float] = []
        self.failures = 0

    def take(self, measure: Callable[[], float]) -> None:
        """Adds what `measure` gives, or a failure."""
        self.take_many(1, lambda: [measure()])

    def take_many(self, count: int, measure: Callable[[], list[float]]) -> None:
        """Adds the `count` values that `measure` gives, or as many failures."""
        try:
            self.values += measure()
        except Exception as error:  # noqa: BLE001 whatever it is, the run goes on and ends as failed
            self.failures += count
            print(f"bench: a sample of {self.name} failed: {error}", file=sys.stderr)

    def forget(self) -> None:
        """Drops the values so far, which were for warming up; failures stay."""
        self.values.clear()

    def percentile(self, p: float) -> float | None:
        """The smallest value that at least p percent do not exceed; None without values."""
        if not self.values:
            return None
        ordered = sorted(self.values)
        return ordered[max(0, math.ceil(p / 100 * len(ordered)) - 1)]


def milliseconds(work: Callable[[], Any]) -> Callable[[], float]:
    """Makes a measure of `work`: how long it takes."""

    def measure() -> float:
        began = time.perf_counter()
        work()
        return (time.perf_counter() - began) * 1000

    return measure


class Report:
    """Prints metrics as they come and writes them at the end."""

    def __init__(self, wanted: Callable[[str], bool]) -> None:
        self.wanted = wanted
        self.metrics: dict[str, dict[str, Any]] = {}
        self.profile: dict[str, dict[str, float]] = {}
        self.failed: list[str] = []

    def add(
        self,
        name: str,
        value: float | None,
        unit: str,
        n: int,
        note: str = "",
        failures: int = 0,
    ) -> None:
        """Adds one metric; None says that there is no value, which is a failure."""
        if not self.wanted(name):
            return
        if value is None:
            failures = max(failures, 1)
        else:
            value = float(f"{value:.4g}")
        row: dict[str, Any] = {"value": value, "unit": unit, "n": n, "note": note}
        if failures:
            row["failures"] = failures
            self.failed.append(name)
        self.metrics[name] = row
        told = f" ({failures} failed)" if failures else ""
        print(name, "none" if value is None else f"{value:g}", unit + told, flush=True)

    def p50(self, samples: Samples, note: str = "", p99: bool = False) -> None:
        """Adds the median of milliseconds, named after the samples, and maybe the 99th percentile."""
        for p in (50, 99) if p99 else (50,):
            name = f"{samples.name}_ms_p{p}"
            self.add(
                name,
                samples.percentile(p),
                "ms",
                len(samples.values),
                note,
                samples.failures,
            )

    def rate(self, samples: Samples, size: int, note: str = "") -> None:
        """Adds the median rate at which `size` bytes went in these milliseconds."""
        middle = samples.percentile(50)
        value = middle and size / 1e6 / (middle / 1000)
        self.add(
            f"{samples.name}_mb_s",
            value,
            "MB/s",
            len(samples.values),
            note,
            samples.failures,
        )

    def steps(self, name: str, taken: list[dict[str, float]]) -> None:
        """Keeps the median of each step of something measured many times."""
        if taken:
            names = dict.fromkeys(step for one in taken for step in one)
            middle = {step: statistics.median(one.get(step, 0.0) for one in taken) for step in names}
            self.profile[name] = {step: round(value, 3) for step, value in middle.items()}

    def write(self, path: Path, machine: dict[str, Any]) -> None:
        """Writes everything as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        everything = {
            "machine": machine,
            "metrics": self.metrics,
            "profile": self.profile,
        }
        path.write_text(json.dumps(everything, indent=2) + "\n", encoding="utf-8")

    def value(self, name: str) -> float | None:
        """What was measured, if it was."""
        found: float | None = self.metrics.get(name, {}).get("value")
        return found

    def bounds(self) -> None:
        """Prints what was measured beside what is promised."""
        for ours, bound in BOUNDS:
            if value := self.value(ours):
                print(f"{ours} = {value:g} ({'kept' if value <= bound else 'MISSED'}: <= {bound})")
        for ours, fixed, parts in SUMS:
            value, others = self.value(ours), [(self.value(name), each) for name, each in parts]
            if value and all(other for other, _ in others):
                bound = fixed + sum(other * each for other, each in others)
                print(f"{ours} = {value:g} ({'kept' if value <= bound else 'MISSED'}: <= {bound:g})")

    def ratios(self) -> None:
        """Prints how ours compares with its peer where a bound is promised."""
        for ours, peer, at_most, bound in RATIOS:
            a, b = (self.metrics.get(name, {}).get("value") for name in (ours, peer))
            if a and b:
                ratio = a / b
                kept = ratio <= bound if at_most else ratio >= bound
                sign = "<=" if at_most else ">="
                print(f"{ours} / {peer} = {ratio:.2f} ({'kept' if kept else 'MISSED'}: {sign} {bound})")


# Ours, and the promised bound.
BOUNDS = (
    ("pool_create_to_first_cell_ms_p50", 49),
    ("pool_create_to_first_cell_ms_p99", 120),
    ("ready_vm_private_mb", 55),
    ("outside_guest_ms_p50", 2),
    ("light_snapshot_pause_ms_p50", 60),
    ("light_hibernate_ms_p50", 150),
    ("hibernate_10th_mb", 10),
)
# Ours, the sum that bounds it: a fixed part, and so much for each of other rows.
SUMS = (
    ("light_wake_to_first_cell_ms_p50", 100, (("bare_restore_to_first_cell_ms_p50", 1),)),
    ("full_hibernate_ms_p50", 60, (("full_hibernate_mb", 5),)),
    (
        "full_wake_to_first_cell_ms_p50",
        0,
        (("bare_restore_to_first_cell_ms_p50", 1), ("full_hibernate_mb", 4)),
    ),
    ("private_mb_per_idle", 100, (("guest_changed_mb_per_idle", 1),)),
)

# Ours, its peer, whether less is better, and the promised bound.
RATIOS = (
    (
        "miss_create_to_first_cell_ms_p50",
        "bare_restore_to_first_cell_ms_p50",
        True,
        1.3,
    ),
    ("fork8_all_answer_ms_p50", "bare_8_starts_ms_p50", True, 1.3),
    ("cell_ms_p50", "cell_ipykernel_same_guest_ms_p50", True, 0.25),
    ("cells_1000_s", "cells_1000_ipykernel_same_guest_s", True, 0.25),
    ("upload_mb_s", "raw_port_up_mb_s", False, 0.55),
    ("download_mb_s", "raw_port_down_mb_s", False, 0.5),
)
