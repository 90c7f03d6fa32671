"""Rows about much of the same in one session: a thousand cells, and twenty contexts."""

from __future__ import annotations

import statistics
from contextlib import ExitStack

from cells import Peers
from memory import megabytes
from node import Bare
from pandastack import Client, Sandbox
from report import Report, Samples, milliseconds

CELLS, CONTEXTS = 1000, 20
PEERS = ("ipykernel", "ipython")
ROWS = (
    "cells_1000_s",
    "cells_1000_first_100_ms_p50",
    "cells_1000_last_100_ms_p50",
    *(f"cells_1000_{name}_same_guest_s" for name in PEERS),
    "context_mb_p50",
    "context_host_mb_p50",
)
EDGE = 100

# Megabytes that are this process' alone: what it shares with the kernel it was forked from costs nothing.
PRIVATE = """
with open("/proc/self/smaps_rollup") as lines:
    print(sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) * 1024 / 1e6)
"""


def run(report: Report, client: Client, _: Bare) -> None:
    """Adds the rows of this file."""
    for rows, measure in ((ROWS[:5], _cells), (ROWS[5:], _contexts)):
        if any(map(report.wanted, rows)):
            with Sandbox.create(client=client) as sandbox:
                measure(report, client, sandbox)


def _cells(report: Report, _: Client, sandbox: Sandbox) -> None:
    """A thousand each, from the first cell on: hundreds of ours and of the peers alternate."""
    peers, context = Peers(sandbox), sandbox.create_code_context()
    ours = Samples("cells_1000")
    others = {name: Samples(f"cells_1000_{name}_same_guest") for name in PEERS}

    def cell() -> None:
        text = context.run_code("1+1").text
        if text != "2":
            raise RuntimeError(f"1+1 gave {text!r}")

    for _ in range(CELLS // EDGE):
        for _ in range(EDGE):
            ours.take(milliseconds(cell))
        for name, samples in others.items():
            samples.take_many(EDGE, lambda name=name: peers.block(name, EDGE))
    _total(report, ours)
    for edge, values in (("first", ours.values[:EDGE]), ("last", ours.values[-EDGE:])):
        part = Samples(f"cells_1000_{edge}_{EDGE}")
        part.values, part.failures = values, ours.failures
        report.p50(part, f"the {edge} {EDGE} of them")
    for samples in others.values():
        _total(report, samples)


def _total(report: Report, samples: Samples) -> None:
    whole, note = None, "1+1 a thousand times in one session"
    if not samples.failures:
        whole = sum(samples.values) / 1000
        first, last = (statistics.median(part) for part in (samples.values[:EDGE], samples.values[-EDGE:]))
        note += f"; one of the first {EDGE} took {first:.2f} ms, of the last {last:.2f} ms (p50)"
    report.add(f"{samples.name}_s", whole, "s", len(samples.values), note, samples.failures)


def _contexts(report: Report, client: Client, sandbox: Sandbox) -> None:
    guest, host = Samples("context"), Samples("context_host")
    sandbox.create_code_context().run_code("1+1").raise_for_error()  # the one that waited
    before = megabytes(client, sandbox, "host_private_bytes")
    with ExitStack() as open_ones:
        for _ in range(CONTEXTS):
            context = open_ones.enter_context(sandbox.create_code_context())
            context.run_code("1+1").raise_for_error()
            guest.take(lambda context=context: float(context.run_code(PRIVATE, check=True).stdout))
            after = megabytes(client, sandbox, "host_private_bytes")
            host.values.append(after - before)
            before = after
    for samples, note in (
        (guest, f"each of {CONTEXTS} contexts of one sandbox after a cell: what is its process' alone"),
        (host, "by how much the VMM's and the shim's private memory grew for it"),
    ):
        report.add(
            f"{samples.name}_mb_p50",
            samples.percentile(50),
            "MB",
            len(samples.values),
            note,
            samples.failures,
        )
