"""Behaviour that users of code interpreters reported, one case a test.

Reads cases/cases.jsonl in the folder that PANDASTACK_SHARED names, and plays the
cases on the server that the SDK finds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pandastack import Client, PandastackError
from runner import Run

# Kinds of cases that change a sandbox for those that come after them.
_OWN_SANDBOX = ("files", "packages", "kernel-death", "limits", "snapshot")

# Where the product documents another answer than the case's check: why, and the check for it.
_DOCUMENTED = {
    "upload-path-traversal": (
        "an absolute path means the whole guest, where cells are root anyway",
        "eval(text(obs[1]))==[False, False, True, False, False]"
        " and [s >= 400 for s in upload_status]==[True, True, False, True, True, True, True, True]"
        " and dl['../../etc/passwd'] is None and dl['link.txt'] is None",
    ),
}

# Cases that fail, with the cause. One that passes must be taken off the list.
_KNOWN_FAILURES: dict[str, str] = {}


def test_case(case: dict[str, Any], server: Client, request: pytest.FixtureRequest) -> None:
    run = Run(case, request.getfixturevalue("own" if case["kind"] in _OWN_SANDBOX else "shared"), server)
    _, check = _DOCUMENTED.get(case["id"], ("", case["check"]))
    failure = _failure(run, check)
    if reason := _KNOWN_FAILURES.get(case["id"]):
        assert failure, f"{case['id']} passes: take it off the known failures"
        pytest.xfail(reason)
    assert not failure, f"{case['expect']}\n{check}\n{failure}\n{_shown(run)}"
    assert not _evil_on_host()


def _failure(run: Run, check: str) -> str:
    """Plays a case and says what is wrong, "" for nothing."""
    try:
        try:
            run.play()
        finally:
            run.close()
    except PandastackError as error:
        return repr(error)
    return "" if run.check(check) else "the check is false"


def _evil_on_host() -> list[Path]:
    names = ("/h5evil", "/tmp/h5evil", "/etc/h5evil", "h5evil", "../h5evil")
    return [path for path in map(Path, names) if path.exists()]


def _shown(run: Run) -> str:
    downloads = {name: data and data[:80] for name, data in run.downloads.items()}
    shown = {"obs": run.obs, "upload_status": run.upload_status, "dl": downloads}
    return json.dumps(shown, indent=1, default=repr)[:6000]
