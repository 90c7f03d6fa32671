"""The row about memory: what one more sandbox costs its host."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx
from pandastack import Client, Sandbox
from pool import wait_until_full
from report import Report, Samples

ROWS = ("ready_vm_private_mb",)
COUNT = 6


def run(report: Report, client: Client) -> None:
    """Adds the rows of this file. The server has a pool."""
    samples = Samples("ready_vm_private")
    for _ in range(COUNT):
        wait_until_full(client)
        samples.take(lambda: taken(client))
    note = (
        "VMM and shim of a machine that waited ready, when it was just taken; what is the "
        "template's counts where the machine has written it"
    )
    report.add(
        ROWS[0],
        samples.percentile(50),
        "MB",
        len(samples.values),
        note,
        samples.failures,
    )


def taken(client: Client) -> float:
    """Private megabytes of a machine that waited until now."""
    sandbox = Sandbox.create(client=client)
    try:
        if sandbox.start.kind != "ready":
            raise RuntimeError(f"the sandbox was {sandbox.start.kind}")
        return megabytes(client, sandbox, "host_private_bytes")
    finally:
        sandbox.kill()


def look(client: Client, sandbox: Sandbox) -> dict[str, Any]:
    """What the server says of a sandbox, all of it."""
    answer = httpx.get(
        f"{client.api_url}/v1/sandboxes/{sandbox.id}",
        headers={"Authorization": f"Bearer {client.api_key}"},
        timeout=60,
    )
    answer.raise_for_status()
    seen: dict[str, Any] = answer.json()
    return seen


def megabytes(client: Client, sandbox: Sandbox, kind: str) -> float:
    """What a sandbox's machine takes of one kind of memory."""
    taken: int = look(client, sandbox)["usage"]["memory"][kind]
    return taken / 1e6


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
