"""Behaviour that users of code interpreters reported, as far as a kernel shows it.

Reads cases/cases.jsonl in the folder that PANDASTACK_SHARED names.
"""

from __future__ import annotations

import ast
import base64
import json
import os
import re
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from .client import Died, KernelClient, Zygote

_SHARED = os.environ.get("PANDASTACK_SHARED")
# The rest is about virtual machines, their files API and snapshots.
_KERNEL_CASES = [
    "chart-bar-typed",
    "chart-save-after-show",
    "chart-show-then-print-order",
    "chart-last-expression-figure",
    "chart-cjk-labels",
    "json-nan-infinity",
    "table-truncation-and-escape",
    "stream-carriage-return-progress",
    "stream-fd-level-output",
    "stream-chatty-child-both-fds",
    "stream-c-printf-holding-gil",
    "stream-endless-output",
    "timeout-then-next-cell",
    "stdin-input-call",
    "asyncio-in-cells",
    "exit-sys-exit",
    "kernel-death-os-exit-and-segfault",
    "cpu-hogs-keep-control",
    "multiprocessing-pool-prints",
    "pip-install-then-import",
    "two-cells-one-context",
    "files-relative-path-found",
]
_GRACE = 3.0


class Session:
    """Plays the guest agent: time limits, fresh kernels for dead ones."""

    def __init__(self, zygote: Zygote, folder: Path) -> None:
        self._zygote = zygote
        self.folder = folder
        self._new_kernel()

    def _new_kernel(self) -> None:
        self.kernel: KernelClient = self._zygote.kernel(str(self.folder))

    def run(self, code: str, timeout: float) -> dict[str, Any]:
        return self.wait(self.kernel.start(code), timeout)

    def wait(self, msg_id: str, timeout: float) -> dict[str, Any]:
        obs: dict[str, Any] = {
            "status": "ok",
            "stdout": "",
            "stderr": "",
            "foreign": "",
            "results": [],
            "error": None,
            "restarted": False,
        }
        begin = time.monotonic()
        limit = begin + timeout
        try:
            while True:
                message = self._receive(limit, obs)
                if _is_idle(message, msg_id):
                    break
                _record(obs, message, msg_id)
        except Died:
            self._died(obs)
        obs["seconds"] = time.monotonic() - begin
        return obs

    def _receive(self, limit: float, obs: dict[str, Any]) -> dict[str, Any]:
        interrupted = obs["status"] == "timeout"
        end = limit + _GRACE if interrupted else limit
        try:
            return self.kernel.receive(max(0.0, end - time.monotonic()))
        except TimeoutError:
            if interrupted:
                os.kill(self.kernel.pid, 9)
            obs["status"] = "timeout"
            self.kernel.interrupt()
            return self._receive(time.monotonic(), obs)

    def _died(self, obs: dict[str, Any]) -> None:
        event = self._zygote.wait_exit(self.kernel.pid)
        if obs["status"] != "timeout":
            obs["status"] = "died"
        value = f"exit code {event['code']}, signal {event['signal']}"
        obs["error"] = {"name": "KernelDied", "value": value, "traceback": []}
        obs["restarted"] = True
        self._new_kernel()


def _is_idle(message: dict[str, Any], msg_id: str) -> bool:
    return (
        message["header"]["msg_type"] == "status"
        and message["content"]["execution_state"] == "idle"
        and message["parent_header"].get("msg_id") == msg_id
    )


def _record(obs: dict[str, Any], message: dict[str, Any], msg_id: str) -> None:
    kind, content = message["header"]["msg_type"], message["content"]
    if kind == "stream":
        own = message["parent_header"].get("msg_id") == msg_id
        obs[content["name"] if own else "foreign"] += content["text"]
    elif kind in ("display_data", "execute_result"):
        obs["results"].append({"kind": kind, "data": content["data"]})
    elif kind == "error" and obs["error"] is None:
        obs["error"] = {
            "name": content["ename"],
            "value": content["evalue"],
            "traceback": content["traceback"],
        }
        if obs["status"] == "ok":
            obs["status"] = "error"


def _data(obs: dict[str, Any], mime: str) -> list[Any]:
    return [r["data"][mime] for r in obs["results"] if mime in r["data"]]


def _text(obs: dict[str, Any]) -> str | None:
    values = [r for r in obs["results"] if r["kind"] == "execute_result"]
    return values[-1]["data"].get("text/plain") if values else None


def _cr(text: str) -> list[str]:
    lines = []
    for line in text.split("\n"):
        shown = ""
        for part in line.split("\r"):
            shown = part + shown[len(part) :]
        lines.append(shown)
    return lines


def _check_names(obs: list[Any], folder: Path, downloads: dict[str, Any]) -> Any:
    return {
        "obs": obs,
        "dl": downloads,
        "pngs": lambda o: [base64.b64decode(p) for p in _data(o, "image/png")],
        "png_size": lambda b: struct.unpack(">II", b[16:24]),
        "text": _text,
        "html": lambda o: _data(o, "text/html")[-1],
        "data": _data,
        "cr": _cr,
        "strict": lambda o: True,  # the client parses nothing but strict JSON
        "re": re,
        "ast": ast,
    }


def _has_cjk_font() -> bool:
    from matplotlib import font_manager

    return any(" CJK " in entry.name for entry in font_manager.fontManager.ttflist)


def _load() -> list[Any]:
    if not _SHARED:
        return []
    lines = (Path(_SHARED) / "cases" / "cases.jsonl").read_text().splitlines()
    cases = [json.loads(line) for line in lines if line.strip()]
    chosen = [c for c in cases if c["id"] in _KERNEL_CASES]
    assert len(chosen) == len(_KERNEL_CASES)
    return [pytest.param(c, id=c["id"]) for c in chosen]


@pytest.mark.skipif(not _SHARED, reason="PANDASTACK_SHARED is not set")
@pytest.mark.parametrize("case", _load())
def test_case(case: dict[str, Any], zygote: Zygote, tmp_path: Path) -> None:
    if case["id"] == "chart-cjk-labels" and not _has_cjk_font():
        pytest.skip("no CJK font on this machine")
    session = Session(zygote, tmp_path)
    cells = case["cells"]
    steps = case.get("steps") or [{"op": "run", "cell": i} for i in range(len(cells))]
    obs: list[Any] = []
    downloads: dict[str, Any] = {}
    for step in steps:
        if step["op"] == "run":
            obs.append(session.run(cells[step["cell"]], step.get("timeout", 30)))
        elif step["op"] == "par":
            started = [session.kernel.start(cells[i]) for i in step["cells"]]
            obs.extend(session.wait(msg_id, 30) for msg_id in started)
        else:
            assert step["op"] == "download", step
            path = tmp_path / step["name"]
            downloads[step["name"]] = path.read_bytes() if path.exists() else None
    shown = json.dumps(obs, indent=1)[:3000]
    names = _check_names(obs, tmp_path, downloads)
    assert eval(case["check"], names), f"{case['expect']}\n{shown}"
