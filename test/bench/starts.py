"""Rows about starting: the mechanism alone, through the API, and a kernel without any VM."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time

from jupyter_client.manager import KernelManager
from node import Bare
from pandastack import Client, Sandbox
from report import Report, Samples

ROWS = (
    "bare_restore_to_first_cell_ms_p50",
    "restore_to_agent_ms_p50",
    "miss_create_to_first_cell_ms_p50",
    "native_ipykernel_start_to_first_cell_ms_p50",
)
WARM_UP, COUNT = 3, 25
CELL_LIMIT = 60.0


class Starts:
    """Takes one sample of each row in turn."""

    def __init__(self, client: Client, bare: Bare) -> None:
        self.client, self.bare = client, bare
        self.bare_steps: list[dict[str, float]] = []
        self.miss_steps: list[dict[str, float]] = []

    def bare_restore(self) -> float:
        """A restore by the mechanism alone."""
        answer = self.bare.ask("restore")
        self.bare_steps.append(answer["steps"])
        return float(answer["ms"])

    def miss(self) -> float:
        """A create for which no machine waits, its first cell, and, not counted, its end."""
        began = time.perf_counter()
        sandbox = Sandbox.create(client=self.client)
        try:
            created = time.perf_counter()
            context = sandbox.create_code_context()
            ready = time.perf_counter()
            text = context.run_code("1+1").text
            ended = time.perf_counter()
        finally:
            sandbox.kill()
        if text != "2" or sandbox.start.kind != "restored":
            raise RuntimeError(f"1+1 gave {text!r} in a sandbox that was {sandbox.start.kind}")
        steps = {step.name: step.ms for step in sandbox.start.steps}
        steps["server's create"] = sandbox.start.total_ms
        steps["SDK create"] = (created - began) * 1000
        steps["SDK context"] = (ready - created) * 1000
        steps["SDK cell"] = (ended - ready) * 1000
        self.miss_steps.append(steps)
        return (ended - began) * 1000


def native(home: str) -> float:
    """Starts ipykernel on the host and runs 1+1 by the shortest way; its end is not counted."""
    manager = KernelManager(kernel_name="python3")
    began = time.perf_counter()
    manager.start_kernel(stderr=subprocess.DEVNULL, env={**os.environ, "IPYTHONDIR": home, "HOME": home})
    client = manager.client()
    try:
        client.start_channels(iopub=False, stdin=False, hb=False, control=False)
        wanted = client.execute("1+1")  # at once: it waits until the kernel listens
        while True:
            reply = client.get_shell_msg(timeout=CELL_LIMIT)
            if reply["parent_header"].get("msg_id") == wanted:
                break
        ended = time.perf_counter()
        if reply["content"]["status"] != "ok":
            raise RuntimeError(f"ipykernel answered {reply['content']}")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()
    return (ended - began) * 1000


def run(report: Report, client: Client, bare: Bare) -> None:
    """Adds the rows of this file."""
    starts = Starts(client, bare)
    bares, misses = (
        Samples("bare_restore_to_first_cell"),
        Samples("miss_create_to_first_cell"),
    )
    natives = Samples("native_ipykernel_start_to_first_cell")
    with tempfile.TemporaryDirectory(prefix="pandastack-bench-") as home:
        for n in range(WARM_UP + COUNT):
            if n == WARM_UP:
                for samples in (bares, misses, natives):
                    samples.forget()
                starts.bare_steps.clear()
                starts.miss_steps.clear()
            bares.take(starts.bare_restore)
            misses.take(starts.miss)
            natives.take(lambda: native(home))
    report.p50(bares, "VMM, device state, hello, resume, kernel, 1+1; no API, no shim, no jail")
    agent = Samples("restore_to_agent")
    agent.values = [step["vmm"] + step["cont"] + step["hello"] for step in starts.bare_steps]
    agent.failures = bares.failures
    report.p50(agent, "VMM start to the agent's hello, of the same samples")
    report.p50(
        misses,
        "SDK: create, create_code_context, run_code; there is no pool yet, so every create is one",
    )
    report.p50(natives, "no VM, nothing imported; execute is sent before the kernel listens")
    report.steps("bare_restore_to_first_cell", starts.bare_steps)
    report.steps("miss_create_to_first_cell", starts.miss_steps)
