"""What schemathesis is to do differently: some calls get ids that exist, so that they reach the machine.

PANDASTACK_TEST_SANDBOX and PANDASTACK_TEST_CONTEXT name them.
"""

from __future__ import annotations

import os
import zlib
from typing import Any

import schemathesis

_REAL = {
    "id": os.environ["PANDASTACK_TEST_SANDBOX"],
    "context": os.environ["PANDASTACK_TEST_CONTEXT"],
    "session": os.environ["PANDASTACK_TEST_CONTEXT"],
}

# Each context takes memory of the machine, so only so many calls may make one.
_made = iter(range(12))


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case, kwargs: Any) -> None:
    """Keeps the sandbox alive and calls short, whatever the request asks for."""
    if case.path_parameters:
        case.path_parameters = _places(case)
    if case.query and str(case.query.get("follow")).lower() in {"true", "1", "t"}:
        case.query["follow"] = "false"  # a log that is followed ends with the machine
    if isinstance(case.body, dict):
        case.body = _patient(case)


def _places(case: schemathesis.Case) -> dict[str, Any]:
    """Puts ids that exist in three calls of four, and never where they would be deleted."""
    given = case.path_parameters
    if case.method.upper() == "DELETE":
        return {name: "gone" if value == _REAL.get(name) else value for name, value in given.items()}
    if zlib.crc32(repr(given).encode("utf-8", "replace")) % 4 == 0:
        return given
    makes_context = case.method.upper() == "POST" and case.path.endswith(("/contexts", "/sessions"))
    if makes_context and next(_made, None) is None:
        return given
    return {name: _REAL.get(name, value) for name, value in given.items()}


def _patient(case: schemathesis.Case) -> dict[str, Any]:
    name, least = {
        "lifecycle": ("ttl_seconds", 0),
        "exec": ("timeout_seconds", 2),
        "stream": ("timeout_seconds", 2),
        "executions": ("timeout_seconds", 5),
        "run": ("timeout_ms", 5000),
    }.get(case.path.rsplit("/", 1)[-1], ("", 0))
    if name and _plain(case.body.get(name, 0)):
        return {**case.body, name: least}
    return case.body


def _plain(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 31_536_000
