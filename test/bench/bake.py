"""The row about making the template from nothing."""

from __future__ import annotations

from pathlib import Path

from node import build_template, scratch_beside
from report import Report, Samples, milliseconds

ROWS = ("bake_s",)


def run(report: Report, program: str, data: Path) -> None:
    """Builds into an empty data directory and removes it."""
    samples = Samples("bake")
    with scratch_beside(data) as empty:
        samples.take(milliseconds(lambda: build_template(program, empty)))
    value = samples.percentile(50)
    note = "empty data directory, package caches empty too: the network is in it"
    report.add(
        ROWS[0],
        value and value / 1000,
        "s",
        len(samples.values),
        note,
        samples.failures,
    )
