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


@schemathesis.hook
def map_path_parameters(context: schemathesis.HookContext, path_parameters: dict[str, Any] | None) -> Any:
    """Puts ids that exist in three calls of four, but for those that would delete them."""
    if not path_parameters or context.operation.method.upper() == "DELETE":
        return path_parameters
    if zlib.crc32(repr(path_parameters).encode("utf-8", "replace")) % 4 == 0:
        return path_parameters
    return {name: _REAL.get(name, value) for name, value in path_parameters.items()}


@schemathesis.hook
def map_query(context: schemathesis.HookContext, query: dict[str, Any] | None) -> Any:
    """Follows no log: it ends with the machine."""
    if query and str(query.get("follow")).lower() in {"true", "1", "t"}:
        return {**query, "follow": "false"}
    return query


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case, kwargs: Any) -> None:
    """Keeps the sandbox alive and calls short, whatever the request asks for."""
    if not isinstance(case.body, dict):
        return
    if case.path.endswith("/lifecycle") and "ttl_seconds" in case.body:
        case.body = {**case.body, "ttl_seconds": 0} if _plain(case.body["ttl_seconds"]) else case.body
    limit = {"/exec": 2, "/stream": 2, "/executions": 5}.get("/" + case.path.rsplit("/", 1)[-1])
    if limit and _plain(case.body.get("timeout_seconds", 0)):
        case.body = {**case.body, "timeout_seconds": limit}


def _plain(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 31_536_000
