"""Rows about files and processes through the API, and the same through the bare machine."""

from __future__ import annotations

import filecmp
import os
import tempfile
from pathlib import Path

from node import Bare
from pandastack import Client, Sandbox
from report import Report, Samples, milliseconds

FILE_ROWS = (
    "upload_mb_s",
    "download_mb_s",
    "raw_port_up_mb_s",
    "raw_port_down_mb_s",
    "agent_up_mb_s",
    "agent_down_mb_s",
)
EXEC_ROWS = ("exec_true_ms_p50", "exec_bare_ms_p50")
ROWS = FILE_ROWS + EXEC_ROWS
SIZE = 64_000_000
FILE_WARM_UP, FILES = 1, 20
EXEC_WARM_UP, EXECS = 20, 200
REMOTE = "/workspace/bench.bin"


def run(report: Report, client: Client, bare: Bare) -> None:
    """Adds the rows of this file."""
    with Sandbox.create(client=client) as sandbox:
        if any(map(report.wanted, EXEC_ROWS)):
            _execs(report, sandbox, bare)
        if any(map(report.wanted, FILE_ROWS)):
            with tempfile.TemporaryDirectory(prefix="pandastack-bench-") as folder:
                _files(report, sandbox, bare, Path(folder))
    bare.ask("release")


def _execs(report: Report, sandbox: Sandbox, bare: Bare) -> None:
    def ours() -> None:
        sandbox.exec(["true"], check=True)

    api, alone = Samples("exec_true"), Samples("exec_bare")
    for n in range(EXEC_WARM_UP + EXECS):
        if n == EXEC_WARM_UP:
            api.forget()
            alone.forget()
        api.take(milliseconds(ours))
        alone.take(lambda: bare.ms("exec"))
    report.p50(api, "SDK: exec of true")
    report.p50(alone, "the same through the agent's stream alone, in another machine")


def _files(report: Report, sandbox: Sandbox, bare: Bare, folder: Path) -> None:
    """Each round sends and gets the same number of bytes in each way."""
    source, target = folder / "up", folder / "down"
    source.write_bytes(os.urandom(SIZE))

    def upload() -> None:
        sandbox.filesystem.upload(source, REMOTE)

    def download() -> None:
        sandbox.filesystem.download(REMOTE, target)

    ways = (
        ("upload", milliseconds(upload), "SDK, from a file to a synced file"),
        (
            "raw_port_up",
            lambda: bare.ms(f"raw_up {SIZE}"),
            "second virtio-serial port, to dd, which drops them",
        ),
        (
            "agent_up",
            lambda: bare.ms(f"agent_up {SIZE}"),
            "WriteFile on the agent's stream alone, synced",
        ),
        ("download", milliseconds(download), "SDK, to a file"),
        (
            "raw_port_down",
            lambda: bare.ms(f"raw_down {SIZE}"),
            "second virtio-serial port, from dd and /dev/zero",
        ),
        (
            "agent_down",
            lambda: bare.ms("agent_down"),
            "ReadFile on the agent's stream alone",
        ),
    )
    taken = {name: Samples(name) for name, _, _ in ways}
    for n in range(FILE_WARM_UP + FILES):
        if n == FILE_WARM_UP:
            for samples in taken.values():
                samples.forget()
        target.unlink(missing_ok=True)  # a file replaced would have to be freed first
        for name, measure, _ in ways:
            taken[name].take(measure)
        if not target.exists() or not filecmp.cmp(source, target, shallow=False):
            taken["download"].failures += 1
    for name, _, note in ways:
        report.rate(taken[name], SIZE, f"{note}; {SIZE / 1e6:.0f} MB each time")
