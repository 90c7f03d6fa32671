"""Plays one case in a sandbox: its steps, and the names that its check knows."""

from __future__ import annotations

import ast
import base64
import json
import re
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pandastack import Client, CodeContext, Execution, PandastackError, Sandbox, SnapshotId

# The machine, and the context, of steps that name none.
MAIN = "main"
# A case's seconds are of a machine with hardware virtualisation.
EMULATION = 10.0
# A limit from here on is a deadline for something that ends by itself; below, one that is meant to be hit.
DEADLINE = 10.0


class Run:
    """One case under way."""

    def __init__(self, case: dict[str, Any], sandbox: Sandbox, client: Client) -> None:
        self._case = case
        self._sandbox, self._client = sandbox, client
        self._machines: dict[str, Sandbox] = {MAIN: sandbox}
        self._snapshots: dict[str, SnapshotId] = {}
        self._ids: dict[str, str] = {}  # of contexts, which copies have too
        self._forked: dict[int, list[dict[str, Any]]] = {}
        self._slow = EMULATION if sandbox.accelerator == "tcg" else 1.0
        self._contexts: dict[tuple[str, str], CodeContext] = {}
        self.files = {name: _content(entry) for name, entry in case["files"].items()}
        self.obs: list[dict[str, Any]] = []
        self.host: list[float] = []
        self.downloads: dict[str, bytes | None] = {}
        self.upload_status: list[int] = []

    def play(self) -> None:
        """Does all steps; a case without them uploads its files and runs its cells."""
        steps = self._case.get("steps")
        if steps is None:
            steps = [{"op": "upload", "name": name} for name in self.files]
            steps += [{"op": "run", "cell": i} for i in range(len(self._case["cells"]))]
        self._all(steps)

    def _all(self, steps: list[dict[str, Any]]) -> None:
        for step in steps:
            options = {name: value for name, value in step.items() if name != "op"}
            getattr(self, "_do_" + step["op"])(**options)

    def close(self) -> None:
        """Ends the kernels, and what the case has made besides."""
        for context in self._contexts.values():
            context.close()
        for machine in self._machines.values():
            if machine is not self._sandbox:
                machine.kill()
        for snapshot in self._snapshots.values():
            self._client.snapshots.delete(snapshot)

    def _context(self, name: str, vm: str = MAIN) -> CodeContext:
        if (vm, name) not in self._contexts:
            machine = self._machines[vm]
            if name in self._ids:
                self._contexts[vm, name] = machine.context(self._ids[name])
            else:
                self._contexts[vm, name] = machine.create_code_context()
                self._ids[name] = self._contexts[vm, name].id
        return self._contexts[vm, name]

    def _do_snapshot(self, name: str) -> None:
        taken = self._machines[MAIN].snapshot()
        if name in self._snapshots:
            self._client.snapshots.delete(self._snapshots[name])
        self._snapshots[name] = taken

    def _do_par_snapshot(self, cell: int, at_seconds: float) -> None:
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(self._cell, self._context(MAIN), cell, 30)
            time.sleep(at_seconds)
            self._do_snapshot("while it runs")
            self._note(*running.result())

    def _do_stop(self, vm: str = MAIN) -> None:
        for key in [key for key in self._contexts if key[0] == vm]:
            del self._contexts[key]
        self._machines.pop(vm).kill()

    def _do_resume(self, name: str, **other: str) -> None:
        self._machines[other.get("as", MAIN)] = self._restored(name)

    def _do_fork(self, name: str, n: int) -> None:
        for number in range(n):
            self._machines[f"fork {number}"] = self._restored(name)

    def _restored(self, name: str) -> Sandbox:
        return Sandbox.create(from_snapshot=self._snapshots[name], client=self._client)

    def _do_run_each(self, cell: int) -> None:
        for vm in [vm for vm in self._machines if vm.startswith("fork ")]:
            seen, host = self._cell(self._context(MAIN, vm), cell, 30)
            self._forked.setdefault(cell, []).append(seen)
            self._note(seen, host)

    def _do_run(
        self,
        cell: int,
        timeout: float = 30,
        ctx: str = MAIN,
        interrupt_after: float | None = None,
        vm: str = MAIN,
    ) -> None:
        with ThreadPoolExecutor(1) as pool:
            context = self._context(ctx, vm)
            running = pool.submit(self._cell, context, cell, timeout)
            if interrupt_after is not None:
                time.sleep(interrupt_after)
                context.interrupt()
            self._note(*running.result())

    def _do_par(self, cells: list[int], ctx: str = MAIN) -> None:
        context = self._context(ctx)
        with ThreadPoolExecutor(len(cells)) as pool:
            running = []
            for cell in cells:
                running.append(pool.submit(self._cell, context, cell, 30))
            for one in running:
                self._note(*one.result())

    def _cell(self, context: CodeContext, cell: int, timeout: float) -> tuple[dict[str, Any], float]:
        limit = timeout * self._slow if timeout >= DEADLINE else timeout
        began, wall = time.monotonic(), time.time()
        seen = observed(context.run_code(self._case["cells"][cell], timeout=limit))
        took = time.monotonic() - began
        seen["seconds"] = took / self._slow
        return seen, wall + took / 2

    def _note(self, seen: dict[str, Any], host: float) -> None:
        self.obs.append(seen)
        self.host.append(host)

    def _do_upload(self, name: str, **source: str) -> None:
        self._sandbox.filesystem.write(name, self.files[source.get("from", name)])

    def _do_upload_raw(self, name: str, **source: str) -> None:
        try:
            self._sandbox.filesystem.write(name, self.files[source.get("from", name)])
            self.upload_status.append(200)
        except PandastackError as error:
            self.upload_status.append(error.status or 0)

    def _do_download(self, name: str) -> None:
        try:
            self.downloads[name] = self._sandbox.filesystem.read(name)
        except PandastackError as error:
            if error.status is None or error.status >= 500:
                raise
            self.downloads[name] = None

    _do_download_raw = _do_download

    def _do_sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def _do_repeat(self, n: int, steps: list[dict[str, Any]]) -> None:
        for _ in range(n):
            self._all(steps)

    def _do_vm(self, memory_mb: int) -> None:
        assert self._sandbox.memory_mb == memory_mb, "no template has a machine of this size"

    def check(self, expression: str) -> bool:
        """Evaluates a check."""
        names = {
            "obs": self.obs,
            "dl": self.downloads,
            "files": self.files,
            "host": self.host,
            "upload_status": self.upload_status,
            "forks": lambda cell: self._forked[cell],
            "pngs": lambda o: [base64.b64decode(p) for p in _data(o, "image/png")],
            "png_size": lambda b: struct.unpack(">II", b[16:24]),
            "text": _text,
            "html": lambda o: _data(o, "text/html")[-1],
            "data": _data,
            "cr": _cr,
            "strict": _strict,
            "re": re,
            "ast": ast,
        }
        return bool(eval(expression, names))


def observed(execution: Execution) -> dict[str, Any]:
    """An execution by the names of the cases."""
    error = execution.error
    return {
        "status": execution.status,
        "stdout": _with_marker(execution, "stdout"),
        "stderr": _with_marker(execution, "stderr"),
        "results": [
            {"kind": "execute_result" if r.is_main_result else "display_data", "data": dict(r.data)}
            for r in execution.results
        ],
        "error": error and {"name": error.name, "value": _value(error), "traceback": error.traceback},
        "foreign": "",
        "restarted": execution.context_restarted,
    }


def _with_marker(execution: Execution, name: str) -> str:
    """A stream; one that was cut says so behind its text, as the product does in `truncated`."""
    text: str = getattr(execution, name)
    cut = getattr(execution.truncated, name, None)
    return f"{text}\n[truncated: {cut}]" if cut else text


def _value(error: Any) -> str:
    """A kernel's death with its signal's number, which the product gives by name."""
    numbers = {"SIGSEGV": "11", "SIGKILL": "9"}
    return f"{error.value} {numbers.get(error.signal or '', '')}".strip()


def _content(entry: dict[str, str]) -> bytes:
    if "text" in entry:
        return entry["text"].encode("utf-8")
    if "b64" in entry:
        return base64.b64decode(entry["b64"])
    return bytes(eval(entry["gen"], {}))


def _data(obs: dict[str, Any], mime: str) -> list[Any]:
    return [r["data"][mime] for r in obs["results"] if mime in r["data"]]


def _text(obs: dict[str, Any]) -> str | None:
    values = [r["data"].get("text/plain") for r in obs["results"] if r["kind"] == "execute_result"]
    return values[-1] if values else None


def _cr(text: str) -> list[str]:
    """The lines as a terminal shows them."""
    lines = []
    for line in text.split("\n"):
        shown = ""
        for part in line.split("\r"):
            shown = part + shown[len(part) :]
        lines.append(shown)
    return lines


def _strict(obs: list[dict[str, Any]]) -> bool:
    """Raises where there is a number that JSON has no word for."""
    json.dumps(obs, allow_nan=False)
    return True
