"""Rows about snapshots, hibernation and forks, and what idle sandboxes take."""

from __future__ import annotations

import tempfile
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from cells import FRAME, PLOT
from memory import look, megabytes
from node import Bare
from pandastack import Client, CodeContext, Sandbox
from report import Report, Samples, milliseconds

LIGHT = (
    "light_snapshot_pause_ms_p50",
    "light_snapshot_ms_p50",
    "light_hibernate_ms_p50",
    "light_wake_to_first_cell_ms_p50",
)
FULL = ("full_hibernate_ms_p50", "full_hibernate_mb", "full_wake_to_first_cell_ms_p50")
TENTH = ("hibernate_10th_mb", "changed_mb_full_compare")
FORKS = ("fork8_all_answer_ms_p50", "bare_8_starts_ms_p50")
IDLE = ("private_mb_per_idle", "guest_changed_mb_per_idle")
ROWS = (*LIGHT, *FULL, *TENTH, *FORKS, *IDLE)
WARM_UP, COUNT = 2, 20
FORK_ROUNDS, FORK_COUNT = 5, 8
IDLE_COUNT = 20
BIG = "import numpy as np\nbig = np.random.default_rng(1).integers(0, 255, 200_000_000, dtype=np.uint8)"


def run(report: Report, client: Client, bare: Bare, data: Path) -> None:
    """Adds the rows of this file."""
    for rows, part in ((LIGHT, _light), (FULL, _full), (FORKS, _forks), (IDLE, _idle)):
        if any(map(report.wanted, rows)):
            part(report, client, bare)
    if any(map(report.wanted, TENTH)):
        _tenth(report, client, bare, data)


def light(client: Client, held: ExitStack) -> tuple[Sandbox, CodeContext]:
    """A sandbox with a frame of 10,000 rows and no plot."""
    sandbox = held.enter_context(Sandbox.create(client=client))
    context = sandbox.create_code_context()
    context.run_code(FRAME).raise_for_error()
    return sandbox, context


def answers(context: CodeContext, n: int) -> None:
    """Runs a cell that no other round runs, and looks at what it gave."""
    if context.run_code(f"len(df) + {n}").text != str(10_000 + n):
        raise RuntimeError("the frame is not what it was")


def wake_to_first_cell(sandbox: Sandbox, context: CodeContext, n: int) -> float:
    """Milliseconds from the call that wakes to the first cell's answer."""
    began = time.perf_counter()
    sandbox.wake()
    answers(context, n)
    return (time.perf_counter() - began) * 1000


def _light(report: Report, client: Client, _: Bare) -> None:
    pauses, snapshots = Samples("light_snapshot_pause"), Samples("light_snapshot")
    hibernates, wakes = Samples("light_hibernate"), Samples("light_wake_to_first_cell")
    with ExitStack() as held:
        sandbox, context = light(client, held)
        for n in range(WARM_UP + COUNT):
            if n == WARM_UP:
                for samples in (pauses, snapshots, hibernates, wakes):
                    samples.forget()
            answers(context, n)
            taken = []
            snapshots.take(milliseconds(lambda taken=taken: taken.append(sandbox.snapshot())))
            pauses.take(lambda taken=taken: client.snapshots.get(taken[0])["pause_ms"])
            client.snapshots.delete(taken[0])
            hibernates.take(milliseconds(sandbox.hibernate))
            wakes.take(lambda n=n: wake_to_first_cell(sandbox, context, n))
    report.p50(pauses, "how long the machine stood still, as the server measured it")
    report.p50(snapshots, "the call")
    report.p50(hibernates, "the call; a frame of 10,000 rows, no plot")
    report.p50(wakes, "wake and a cell")


def _full(report: Report, client: Client, _: Bare) -> None:
    hibernates, wakes, sizes = (
        Samples("full_hibernate"),
        Samples("full_wake_to_first_cell"),
        Samples("full_mb"),
    )
    # Every sample is the first hibernation of a session of its own: a second one writes less.
    for n in range(COUNT):
        with ExitStack() as held:
            sandbox, context = light(client, held)
            context.run_code(PLOT).raise_for_error()
            install_wheel(sandbox, context)
            hibernates.take(milliseconds(sandbox.hibernate))
            sizes.take(lambda sandbox=sandbox: look(client, sandbox)["saved"]["memory_bytes"] / 1e6)
            wakes.take(lambda sandbox=sandbox, context=context, n=n: wake_to_first_cell(sandbox, context, n))
    report.p50(hibernates, "the first of a session with a frame, a plot and an installed wheel")
    size = sizes.percentile(50)
    report.add(
        "full_hibernate_mb",
        size,
        "MB",
        len(sizes.values),
        "pages that differ from the template",
        sizes.failures,
    )
    report.p50(wakes, "wake and a cell")


def install_wheel(sandbox: Sandbox, context: CodeContext) -> None:
    """Installs a wheel made here, as there is no network in there."""
    name = "bench_probe-1.0"
    with tempfile.TemporaryDirectory() as folder:
        wheel = Path(folder) / f"{name}-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("bench_probe.py", "answer = 42\n")
            archive.writestr(
                f"{name}.dist-info/METADATA", "Metadata-Version: 2.1\nName: bench-probe\nVersion: 1.0\n"
            )
            archive.writestr(
                f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            archive.writestr(f"{name}.dist-info/RECORD", "")
        sandbox.filesystem.upload(wheel, f"/workspace/{wheel.name}")
    context.run_code(f"%pip install --no-index /workspace/{wheel.name}", timeout=300).raise_for_error()


def _tenth(report: Report, client: Client, bare: Bare, data: Path) -> None:
    written, saves = [], []
    with Sandbox.create(client=client) as sandbox:
        context = sandbox.create_code_context()
        context.run_code(BIG, timeout=300).raise_for_error()
        for n in range(10):
            context.run_code(f"big[{n}] += 1; x = {n}").raise_for_error()
            sandbox.hibernate()
            written.append(look(client, sandbox)["saved"]["written_bytes"] / 1e6)
            if n >= 8:  # links to the save, which the next hibernation replaces
                saves.append(sandbox.snapshot())
        folders = [str(data / "saves" / str(one)) for one in saves]
        changed = bare.ask(f"differ {folders[0]} {folders[1]}")["mb"]
        for one in saves:
            client.snapshots.delete(one)
    note = "a session of 200 MB that changed one cell; before compression; the ten wrote " + ", ".join(
        f"{one:.1f}" for one in written
    )
    report.add(TENTH[0], written[-1], "MB", 1, note)
    report.add(TENTH[1], changed, "MB", 1, "pages that differ between the ninth and the tenth save")


def _forks(report: Report, client: Client, bare: Bare) -> None:
    forks, bares = Samples("fork8_all_answer"), Samples("bare_8_starts")
    with ExitStack() as held, ThreadPoolExecutor(FORK_COUNT) as threads:
        sandbox, context = light(client, held)

        def fork() -> float:
            began = time.perf_counter()
            children = sandbox.fork_tree(FORK_COUNT)
            try:
                contexts = [child.context(context.id) for child in children]
                list(threads.map(lambda one: answers(one, 0), contexts))
                return (time.perf_counter() - began) * 1000
            finally:
                list(threads.map(lambda one: one.kill(), children))

        for n in range(1 + FORK_ROUNDS):
            if n == 1:
                forks.forget()
                bares.forget()
            forks.take(fork)
            bares.take(lambda: bare.ms(f"restores {FORK_COUNT}"))
    report.p50(forks, f"{FORK_COUNT} copies of the light session, each has run a cell in the copied context")
    report.p50(bares, f"{FORK_COUNT} restores at once by the mechanism alone, each has run 1+1")


def _idle(report: Report, client: Client, _: Bare) -> None:
    private, changed = Samples("private"), Samples("changed")
    with ExitStack() as held:
        sandboxes = [light(client, held)[0] for _ in range(IDLE_COUNT)]
        for sandbox in sandboxes:
            private.take(lambda one=sandbox: megabytes(client, one, "host_private_bytes"))
            changed.take(lambda one=sandbox: megabytes(client, one, "guest_changed_bytes"))
    for row, samples, note in (
        (IDLE[0], private, "VMM and shim"),
        (IDLE[1], changed, "pages of the guest that are no longer the template's"),
    ):
        report.add(
            row,
            samples.percentile(50),
            "MB",
            len(samples.values),
            f"{IDLE_COUNT} light sessions; {note}",
            samples.failures,
        )
