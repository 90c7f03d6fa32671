"""Rows about cells in a warm session, and the same cell by its peers in the same guest."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from node import Bare
from pandastack import Client, CodeContext, Sandbox
from report import Report, Samples, milliseconds

BARE_ROWS = ("cell_bare_ms_p50", "outside_guest_ms_p50")
SMALL_ROWS = (
    "cell_ms_p50",
    "cell_ms_p99",
    "cell_ipykernel_same_guest_ms_p50",
    "cell_ipython_same_guest_ms_p50",
    "cell_agent_ms_p50",
    "api_overhead_ms_p50",
)
SHOWN_ROWS = ("describe_ms_p50", "plot_ms_p50")
ROWS = (*BARE_ROWS, *SMALL_ROWS, *SHOWN_ROWS)
WARM_UP, BLOCKS, BLOCK = 40, 10, 25
SLOW_WARM_UP, SLOW = 3, 30

FRAME = """
import numpy as np, pandas as pd
random = np.random.default_rng(7)
df = pd.DataFrame({
    "date": pd.date_range("2020-01-01", periods=10_000, freq="h"),
    "category": random.choice(["a", "b", "c"], 10_000),
    "units": random.integers(1, 90, 10_000),
    "price": random.gamma(2.0, 20.0, 10_000),
})
df["revenue"] = df.units * df.price
"""
PLOT = "import matplotlib.pyplot as plt\ndf['revenue'].plot()\nplt.show()"

PEERS_AT = "/tmp/bench_peers.py"
START_PEERS = f"""
import json, subprocess, sys
pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
peers = subprocess.Popen([sys.executable, {PEERS_AT!r}], **pipes)
print(peers.stdout.readline().strip())
def ask(line):
    print(line, file=peers.stdin, flush=True)
    print(peers.stdout.readline())
"""


class Peers:
    """The program guest_peers.py in a sandbox. A second context holds its pipes and sleeps meanwhile."""

    def __init__(self, sandbox: Sandbox) -> None:
        sandbox.filesystem.upload(Path(__file__).with_name("guest_peers.py"), PEERS_AT)
        self._context = sandbox.create_code_context()
        started = self._context.run_code(START_PEERS, timeout=300)
        if started.stdout.strip() != "ready":
            raise RuntimeError(f"the peers did not start: {started.error or started.stderr}")

    def block(self, name: str, count: int) -> list[float]:
        """Milliseconds of so many cells."""
        done = self._context.run_code(f"ask('{name} {count}')", timeout=300)
        done.raise_for_error()
        values: list[float] = json.loads(done.stdout)
        return values


class Cells:
    """Our own cells, and how long the agent says that each took."""

    def __init__(self, context: CodeContext) -> None:
        self._context = context
        self.agent = Samples("cell_agent")
        self.overhead = Samples("api_overhead")

    def one(self) -> float:
        """Runs 1+1."""
        seen = []
        took = milliseconds(lambda: seen.append(self._context.run_code("1+1")))()
        if seen[0].text != "2":
            raise RuntimeError(f"1+1 gave {seen[0].text!r}")
        self.agent.values.append(seen[0].duration_ms)
        self.overhead.values.append(took - seen[0].duration_ms)
        return took


def run(report: Report, client: Client, bare: Bare) -> None:
    """Adds the rows of this file."""
    with Sandbox.create(client=client) as sandbox:
        context = sandbox.create_code_context()
        if any(map(report.wanted, BARE_ROWS)):
            _outside(report, context, bare)
        if any(map(report.wanted, SMALL_ROWS)):
            _small(report, sandbox, context)
        if any(map(report.wanted, SHOWN_ROWS)):
            _shown(report, context)


def _outside(report: Report, context: CodeContext, bare: Bare) -> None:
    """1+1 in two machines that have done nothing else: through all of ours, and on the agent's stream alone.

    How long the cell itself took is left out on both sides: it differs by more than what is measured
    from one machine to the next.
    """
    cells, ours, alone = Cells(context), Samples("cell"), Samples("cell_bare")
    bare_overhead = Samples("bare_overhead")

    def without() -> float:
        answer = bare.ask("cell")
        took = float(answer["ms"])
        bare_overhead.values.append(took - answer["steps"]["agent"])
        return took

    for _ in range(WARM_UP):
        cells.one()
        without()
    for samples in (cells.overhead, bare_overhead):
        samples.forget()
    for _ in range(BLOCKS):
        for _ in range(BLOCK):
            ours.take(cells.one)
        for _ in range(BLOCK):
            alone.take(without)
    bare.ask("release")
    report.p50(alone, "Execute through the agent's stream alone, in another machine")
    whole, part = cells.overhead.percentile(50), bare_overhead.percentile(50)
    report.add(
        "outside_guest_ms_p50",
        None if whole is None or part is None else whole - part,
        "ms",
        len(alone.values),
        "what SDK, server and shim add: cell minus duration_ms, less the same of cell_bare",
        ours.failures + alone.failures,
    )


def _small(report: Report, sandbox: Sandbox, context: CodeContext) -> None:
    """1+1: blocks of ours and of the peers alternate."""
    peers = Peers(sandbox)
    for _ in range(WARM_UP):
        context.run_code("1+1")
    for name in ("ipykernel", "ipython"):
        peers.block(name, WARM_UP)
    cells, ours = Cells(context), Samples("cell")
    others = {name: Samples(f"cell_{name}_same_guest") for name in ("ipykernel", "ipython")}
    for _ in range(BLOCKS):
        for _ in range(BLOCK):
            ours.take(cells.one)
        for name, samples in others.items():
            samples.take_many(BLOCK, lambda name=name: peers.block(name, BLOCK))
    report.p50(ours, "SDK, server, shim, agent, kernel host and back", p99=True)
    report.p50(
        others["ipykernel"],
        "jupyter_client to ipykernel over ZeroMQ until result, reply and idle",
    )
    report.p50(others["ipython"], "InteractiveShell.run_cell in its own process, with history")
    report.p50(cells.agent, "duration_ms of the same cells")
    report.p50(cells.overhead, "cell minus duration_ms, cell by cell")


def _shown(report: Report, context: CodeContext) -> None:
    context.run_code(FRAME).raise_for_error()

    def describe() -> None:
        if "<table" not in (context.run_code("df.describe()").html or ""):
            raise RuntimeError("describe gave no table")

    def plot() -> None:
        if not base64.b64decode(context.run_code(PLOT).png or "").startswith(b"\x89PNG"):
            raise RuntimeError("the plot gave no PNG")

    tables, plots = Samples("describe"), Samples("plot")
    for _ in range(SLOW_WARM_UP):
        describe()
        plot()
    for _ in range(SLOW):
        tables.take(milliseconds(describe))
        plots.take(milliseconds(plot))
    report.p50(tables, "df.describe() of 10,000 rows to HTML")
    report.p50(plots, "a line of 10,000 points to PNG")
