"""The row about memory: what one more sandbox costs its host."""

from __future__ import annotations

import os
from pathlib import Path

from pandastack import Client, Sandbox
from report import Report, Samples

ROWS = ("ready_vm_private_mb",)
COUNT = 4
TEMPLATE_MEMORY = "/memfd:pandastack"


def run(report: Report, client: Client) -> None:
    """Adds the rows of this file."""
    samples = Samples("ready_vm_private")
    sandboxes: list[Sandbox] = []
    try:
        for _ in range(COUNT):
            sandbox = Sandbox.create(client=client)
            sandboxes.append(sandbox)
            sandbox.create_code_context().run_code("pass").raise_for_error()
        for sandbox in sandboxes:
            samples.take(lambda one=sandbox: sum(map(private_mb, processes(one.id))))
    finally:
        for sandbox in sandboxes:
            sandbox.kill()
    note = (
        "VMM and shim of a restored sandbox that has run one cell; "
        f"{COUNT} of them at once; there is no pool yet"
    )
    report.add(
        ROWS[0],
        samples.percentile(50),
        "MB",
        len(samples.values),
        note,
        samples.failures,
    )


def processes(sandbox_id: str) -> list[Path]:
    """The sandbox's VMM, known by its name, and its shim, known by its run folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_text(encoding="utf-8").split("\0")
        except OSError:
            continue  # it has ended
        is_vmm = f"pandastack-{sandbox_id}" in words
        is_shim = words[1:2] == ["shim"] and words[2].endswith(sandbox_id)
        if is_vmm or is_shim:
            found.append(entry)
    if len(found) != 2:
        raise RuntimeError(f"sandbox {sandbox_id} has {len(found)} processes instead of a VMM and a shim")
    return found


def private_mb(process: Path) -> float:
    """Megabytes that are this process's alone.

    A page of the template that only one machine happens to have mapped looks private
    and clean; it is the template's, so of that mapping only what was written counts.
    """
    total, of_template = 0, False
    for line in (process / "smaps").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            of_template = TEMPLATE_MEMORY in line
        elif words[0] == "Private_Dirty:" or (words[0] == "Private_Clean:" and not of_template):
            total += int(words[1])
    return total * 1024 / 1e6


def server() -> Path:
    """The server that this process started."""
    for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split():
        process = Path("/proc") / child
        if (process / "cmdline").read_text(encoding="utf-8").split("\0")[1:2] == ["serve"]:
            return process
    raise RuntimeError("no server runs")


class Peak:
    """The most resident memory of a process from now on."""

    def __init__(self, process: Path) -> None:
        self._process = process
        (process / "clear_refs").write_text("5", encoding="ascii")

    def mb(self) -> float:
        """Megabytes."""
        for line in (self._process / "status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
        raise RuntimeError(f"{self._process} has no high-water mark")
