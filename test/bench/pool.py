"""Rows about machines that wait ready, and about many starts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
from pandastack import Client, Sandbox
from report import Report, Samples

ROWS = (
    "pool_create_to_first_cell_ms_p50",
    "pool_create_to_first_cell_ms_p99",
    "burst16_create_to_first_cell_ms_p50",
    "burst16_create_to_first_cell_ms_p99",
    "sustained_creates_s",
)
WARM_UP, COUNT = 5, 100
BURSTS, BURST = 3, 16
CLIENTS, SUSTAINED_SECONDS = 4, 60.0
FULL_LIMIT = 120.0


def one_life(client: Client, started: list[dict[str, float]] | None = None, kind: str = "") -> float:
    """Milliseconds of create, context and first cell; the end is not counted."""
    began = time.perf_counter()
    sandbox = Sandbox.create(client=client)
    try:
        created = time.perf_counter()
        context = sandbox.create_code_context()
        ready = time.perf_counter()
        text = context.run_code("1+1").text
        ended = time.perf_counter()
    finally:
        sandbox.kill()
    if text != "2" or kind not in ("", sandbox.start.kind):
        raise RuntimeError(f"1+1 gave {text!r} in a sandbox that was {sandbox.start.kind}")
    if started is not None:
        steps = {step.name: step.ms for step in sandbox.start.steps}
        steps["SDK create"] = (created - began) * 1000
        steps["SDK context"] = (ready - created) * 1000
        steps["SDK cell"] = (ended - ready) * 1000
        started.append(steps)
    return (ended - began) * 1000


def wait_until_full(client: Client) -> None:
    """Returns when as many machines wait as should."""
    until = time.monotonic() + FULL_LIMIT
    while time.monotonic() < until:
        health = httpx.get(f"{client.api_url}/v1/health", timeout=60).json()
        if 0 < health["ready_wanted"] <= health["ready"]:
            return
        time.sleep(0.02)
    raise RuntimeError("the pool did not become full")


def run(report: Report, client: Client) -> None:
    """Adds the rows of this file; the server keeps a pool."""
    if any(map(report.wanted, ROWS[:2])):
        _pool(report, client)
    if any(map(report.wanted, ROWS[2:4])):
        _burst(report, client)
    if report.wanted(ROWS[4]):
        _sustained(report, client)


def _pool(report: Report, client: Client) -> None:
    samples, steps = Samples("pool_create_to_first_cell"), []
    for n in range(WARM_UP + COUNT):
        if n == WARM_UP:
            samples.forget()
            steps.clear()
        wait_until_full(client)
        samples.take(lambda: one_life(client, steps, "ready"))
    report.p50(samples, "SDK: create, create_code_context, run_code; the pool is full at each", p99=True)
    report.steps("pool_create_to_first_cell", steps)


def _burst(report: Report, client: Client) -> None:
    samples = Samples("burst16_create_to_first_cell")
    with ThreadPoolExecutor(BURST) as clients:
        for _ in range(BURSTS):
            wait_until_full(client)
            for life in [clients.submit(one_life, client) for _ in range(BURST)]:
                samples.take(life.result)
    report.p50(samples, f"{BURST} at once, {BURSTS} times, from a pool of 8 at most", p99=True)


def _sustained(report: Report, client: Client) -> None:
    until = time.monotonic() + SUSTAINED_SECONDS
    lives, lock = Samples("sustained"), threading.Lock()

    def work() -> None:
        while time.monotonic() < until:
            _take(lives, lock, lambda: one_life(client))

    began = time.monotonic()
    workers = [threading.Thread(target=work) for _ in range(CLIENTS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    rate = len(lives.values) / (time.monotonic() - began)
    report.add(
        ROWS[4],
        rate,
        "1/s",
        len(lives.values),
        f"{CLIENTS} clients: create, context, 1+1, delete",
        lives.failures,
    )


def _take(samples: Samples, lock: threading.Lock, measure: Callable[[], float]) -> None:
    """Measures and adds, one thread at a time."""
    try:
        took = [measure()]
    except Exception as error:  # noqa: BLE001 it is counted
        took, failed = [], error
        with lock:
            samples.take(lambda: (_ for _ in ()).throw(failed))
    with lock:
        samples.values += took
