"""Rows about output on its way from a cell to its client."""

from __future__ import annotations

import time
from contextlib import ExitStack

from memory import Peak, processes, server
from node import Bare
from pandastack import Client, CodeContext, InputRequest, Sandbox
from report import Report, Samples

ROWS = (
    "print_to_client_ms_p50",
    "print_to_client_beside_busy_ms_p50",
    "stdout_mb_s",
    "stdout_server_mb",
    "stdout_shim_mb",
    "stdout_agent_mb",
)
WARM_UP, PRINTS = 10, 60
FLOODS, FLOOD_MB = 3, 100

# Clocks of host and guest differ by milliseconds, so a question goes in for each answer that comes out.
ECHO = "for _ in range({}):\n    input()\n    print('pong', flush=True)"

# The agent is the guest's process 1. Its high-water mark is begun anew before it is read.
RESET_AGENT = "echo 5 > /proc/1/clear_refs"
AGENT_PEAK = "awk '/VmHWM/ {print $2}' /proc/1/status"


def run(report: Report, client: Client, _: Bare) -> None:
    """Adds the rows of this file."""
    with Sandbox.create(client=client) as sandbox, sandbox.create_code_context() as context:
        if report.wanted(ROWS[0]):
            note = "an answer to input() goes in, the print after it reaches on_stdout"
            report.p50(_prints(context, "print_to_client"), note)
        if report.wanted(ROWS[1]):
            with _busy(client):
                report.p50(
                    _prints(context, "print_to_client_beside_busy"), "another sandbox in a loop without end"
                )
        if any(map(report.wanted, ROWS[2:])):
            _flood(report, sandbox, context)


def _prints(context: CodeContext, name: str) -> Samples:
    samples = Samples(name)
    asked = 0.0

    def answer(_: InputRequest) -> str:
        nonlocal asked
        asked = time.perf_counter()
        return ""

    def stdout(text: str) -> None:
        if "pong" in text:
            samples.values.append((time.perf_counter() - asked) * 1000)

    context.run_code(ECHO.format(WARM_UP + PRINTS), on_input=answer, on_stdout=stdout, check=True)
    if len(samples.values) != WARM_UP + PRINTS:
        raise RuntimeError(f"{len(samples.values)} prints came")
    del samples.values[:WARM_UP]
    return samples


def _busy(client: Client) -> ExitStack:
    """A second sandbox whose cell never ends; it goes with the block."""
    stack = ExitStack()
    sandbox = stack.enter_context(Sandbox.create(client=client))
    handle = sandbox.create_code_context().start("print('on', flush=True)\nwhile True: pass")
    next(handle.events())
    return stack


def _flood(report: Report, sandbox: Sandbox, context: CodeContext) -> None:
    shim = next(one for one in processes(sandbox.id) if "shim" in (one / "cmdline").read_text())
    peaks = {"server": Peak(server()), "shim": Peak(shim)}
    sandbox.exec(RESET_AGENT).raise_for_error()
    rates = []
    for _ in range(FLOODS):
        came = 0

        def stdout(text: str) -> None:
            nonlocal came
            came += len(text)

        began = time.perf_counter()
        context.run_code(f"print('x' * {FLOOD_MB}_000_000)", on_stdout=stdout, check=True)
        if came != FLOOD_MB * 1_000_000 + 1:
            raise RuntimeError(f"{came} characters came")
        rates.append(FLOOD_MB / (time.perf_counter() - began))
    report.add(
        "stdout_mb_s", sorted(rates)[len(rates) // 2], "MB/s", len(rates), f"{FLOOD_MB} MB of one print"
    )
    agent = int(sandbox.exec(AGENT_PEAK).stdout) * 1024 / 1e6
    for name, mb in (*((name, peak.mb()) for name, peak in peaks.items()), ("agent", agent)):
        report.add(f"stdout_{name}_mb", mb, "MB", FLOODS, "its resident memory at the most meanwhile")
