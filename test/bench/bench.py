"""Measures PandaStack beside its peers: prints NAME VALUE UNIT lines and writes JSON."""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import bake
import cells
import memory
import pool
import saves
import scale
import starts
import streams
import transfers
from node import Bare, build_template, link_template, scratch_beside, serving
from pandastack import Client
from report import Report

WITH_BARE = (starts, cells, scale, streams, transfers)


def arguments() -> argparse.Namespace:
    """What scripts/bench.sh gives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="regular expression of the rows to measure")
    parser.add_argument("--program", required=True, help="the pandastack binary")
    parser.add_argument("--bare", required=True, help="the program of main.go")
    parser.add_argument("--data-dir", type=Path, required=True, help="where the template is, or will be")
    parser.add_argument("--out", type=Path, required=True, help="the JSON to write")
    return parser.parse_args()


def machine(client: Client | None) -> dict[str, Any]:
    """Where the numbers come from."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    )
    about = {
        "cpus": os.cpu_count(),
        "cpu": cpu and cpu[1],
        "commit": commit.stdout.strip(),
    }
    if client is not None:
        about["accelerator"] = client.health().accelerator
        about["qemu"] = client.version().vmm
    return about


def measure(report: Report, options: argparse.Namespace) -> dict[str, Any]:
    """Takes all samples that are wanted and says on what machine."""
    about = machine(None)
    if any(report.wanted(row) for part in (*WITH_BARE, memory, saves, pool) for row in part.ROWS):
        build_template(options.program, options.data_dir)
        with ExitStack() as held:
            data = held.enter_context(scratch_beside(options.data_dir))
            link_template(options.data_dir, data)
            client = held.enter_context(serving(options.program, data))
            bare = held.enter_context(closing(Bare(options.bare, data)))
            about = machine(client)
            for part in WITH_BARE:
                attempt(report, part.ROWS, lambda part=part: part.run(report, client, bare))
            attempt(report, saves.ROWS, lambda: saves.run(report, client, bare, data))
        if any(map(report.wanted, pool.ROWS + memory.ROWS)):
            with scratch_beside(options.data_dir) as data:
                link_template(options.data_dir, data)
                with serving(options.program, data, "--pool-max", "8") as client:
                    attempt(report, memory.ROWS, lambda: memory.run(report, client))
                    attempt(report, pool.ROWS, lambda: pool.run(report, client))
    attempt(report, bake.ROWS, lambda: bake.run(report, options.program, options.data_dir))
    return about


def attempt(report: Report, rows: tuple[str, ...], run: Callable[[], None]) -> None:
    """Runs a part if one of its rows is wanted; rows that it could not measure count as failures."""
    if not any(map(report.wanted, rows)):
        return
    try:
        run()
    except Exception:  # noqa: BLE001 the other parts can still be measured
        traceback.print_exc()
        for row in rows:
            if row not in report.metrics:
                report.add(row, None, "", 0, "could not be measured")


def main() -> int:
    """Gives 1 when a sample failed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended
    options = arguments()
    report = Report(lambda name: re.search(options.only, name) is not None)
    about: dict[str, Any] = {}
    try:
        about = measure(report, options)
    finally:
        report.write(options.out, about or machine(None))
    report.ratios()
    report.bounds()
    if not report.metrics:
        print(f"bench: no row matches {options.only!r}", file=sys.stderr)
        return 1
    if report.failed:
        print("bench: samples failed of " + ", ".join(report.failed), file=sys.stderr)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
