"""The parts of the protocol that need no connection: addresses, bodies, time limits, errors."""

from __future__ import annotations

import base64
import json
import math
import secrets
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Optional, Union
from urllib.parse import quote

import httpx

from ._fields import bad_answer
from ._models import SandboxInfo
from .exceptions import (
    AuthError,
    BadRequestError,
    CapacityError,
    ConflictError,
    ConnectionError,
    ExecInterrupted,
    FieldError,
    NotFoundError,
    NotOfferedError,
    PandastackError,
    SandboxFailed,
    SandboxTimeout,
    ServerError,
    TemplateBuildError,
)

# Seconds an answer may take beyond the limit of what runs: the interrupt, its
# grace, the kill, and a new kernel under emulation.
GRACE = 60.0
# Seconds without a byte after which a stream counts as broken: the server sends a sign of life every 15.
SILENCE = 60.0
# One argument of a process stays under 128 KiB on Linux; longer code goes by stdin.
MAX_ARGUMENT = 100 * 1024

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_PYTHON = ("python", "py", "python3")
_SHELL = ("shell", "sh", "bash")


@lru_cache(maxsize=256)  # each cell of a context asks for the same, and it takes long to read a URL
def address(base: str, path: str) -> httpx.URL:
    """The URL of a path below ``/v1``; a base with a path of its own keeps it."""
    return httpx.URL(f"{base}{path}" if base.endswith("/v1") else f"{base}/v1{path}")


def segment(value: str) -> str:
    """One part of a path, so encoded that it cannot name another path."""
    if not isinstance(value, str) or value in ("", ".", ".."):
        raise ValueError(f"{value!r} is not an id or a name")
    return quote(value, safe="")


def encode(body: Mapping[str, Any]) -> bytes:
    """A request's JSON. Text with lone surrogates is a ValueError: the server would get other text."""
    return _ENCODER.encode(body).encode("utf-8")


def decode(response: httpx.Response) -> Any:
    """An answer's JSON, always read as UTF-8."""
    try:
        return json.loads(response.content.decode("utf-8"))
    except (ValueError, RecursionError):
        raise bad_answer(f"{response.request.method} {response.request.url} gave no JSON") from None


def sparse(**fields: Any) -> dict[str, Any]:
    """Leaves out what is None, empty, 0 or False: on the wire they all mean the default."""
    return {name: value for name, value in fields.items() if value}


def given(**fields: Any) -> dict[str, Any]:
    """Leaves out what is None: here False and 0 do not mean the default."""
    return {name: value for name, value in fields.items() if value is not None}


def limit(timeout: Optional[float], timeout_seconds: Optional[float]) -> Optional[float]:
    """The one time limit in seconds meant by the two names it goes by; None for no limit."""
    if timeout is not None and timeout_seconds is not None and timeout != timeout_seconds:
        raise ValueError("timeout and timeout_seconds are the same limit; give one of them")
    seconds = timeout_seconds if timeout is None else timeout
    if seconds is not None and not (seconds > 0 and math.isfinite(seconds)):
        raise ValueError("a timeout is a number of seconds above 0, or None for no limit")
    return seconds


def patience(seconds: Optional[float]) -> Optional[float]:
    """How long to wait for the answer of what runs for at most so many seconds."""
    return None if seconds is None else seconds + GRACE


def cell(
    code: str,
    seconds: Optional[float],
    *,
    max_output: Optional[int] = None,
    max_result: Optional[int] = None,
    **options: Any,
) -> dict[str, Any]:
    """The body of the call that runs a cell."""
    output = sparse(stream_bytes=max_output, result_bytes=max_result)
    more = sparse(timeout_seconds=seconds, output=output, **options)
    return {"code": code, "id": execution_id(), **more}


def comm(
    comm_id: str,
    data: Optional[Mapping[str, Any]],
    kind: str,
    *,
    buffers: Sequence[bytes] = (),
    metadata: Optional[Mapping[str, Any]] = None,
    target_name: str = "",
) -> dict[str, Any]:
    """A comm message as the server takes it."""
    encoded = [base64.b64encode(buffer).decode("ascii") for buffer in buffers]
    more = sparse(metadata=metadata, target_name=target_name, buffers=encoded)
    return {"msg_type": kind, "comm_id": comm_id, "data": dict(data or {}), **more}


def execution_id() -> str:
    """A fresh idempotency key: a repeated call attaches to the first one's cell."""
    return secrets.token_hex(16)


def language(name: str) -> str:
    """A context's language as the server calls it."""
    name = name.strip().lower()
    return "python" if name in _PYTHON else name


def one_shot(code: str, name: str) -> dict[str, Any]:
    """The process that runs `code`: as an argument, or by stdin where it is too long for one."""
    short = len(code.encode("utf-8")) <= MAX_ARGUMENT
    if name.lower() in _PYTHON:
        return {"argv": ["python3", "-c", code]} if short else {"argv": ["python3", "-"], "stdin": code}
    if name.lower() in _SHELL:
        return {"argv": ["bash", "-c", code]} if short else {"argv": ["bash", "-s"], "stdin": code}
    raise ValueError(f"language is 'python' or 'shell', not {name!r}")


def command(cmd: Union[str, Sequence[str]]) -> dict[str, Any]:
    """A line for the shell, or a process' arguments."""
    if isinstance(cmd, str):
        return {"cmd": cmd}
    argv = list(cmd)
    if not argv or not all(isinstance(arg, str) for arg in argv):
        raise TypeError("a command is a string or a non-empty sequence of strings")
    return {"argv": argv}


def retry_after(headers: httpx.Headers) -> Optional[float]:
    """Seconds from the Retry-After header, which has seconds or a date."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def error_of(response: httpx.Response) -> PandastackError:
    """The error that an answer outside 200 to 299 stands for."""
    body = _error_body(response)
    wait = retry_after(response.headers)
    return _error(
        body,
        _kind(response.status_code, str(body.get("code") or ""), wait),
        _bare_message(response),
        status=response.status_code,
        retry_after=wait,
        request_id=response.headers.get("x-request-id", ""),
    )


def error_in_stream(data: object) -> PandastackError:
    """The error that an event of a stream that had begun stands for."""
    body = data if isinstance(data, dict) else {}
    kind = _kind(500, str(body.get("code") or ""), None)
    return _error(body, kind, "The server said that the stream failed, but not why.")


def _error(body: Mapping[str, Any], kind: type[PandastackError], bare: str, **more: Any) -> PandastackError:
    about: dict[str, Any] = {
        "code": str(body.get("code") or ""),
        "hint": str(body.get("hint") or ""),
        "fields": _field_errors(body.get("fields")),
        "detail": body.get("detail") if isinstance(body.get("detail"), dict) else None,
        **more,
    }
    message = next((v for v in (body.get("error"), body.get("message")) if isinstance(v, str) and v), "")
    error = kind(message or bare, **about)
    if isinstance(error, SandboxTimeout):
        error.partial_stdout = str(error.detail.get("stdout") or "")
        error.partial_stderr = str(error.detail.get("stderr") or "")
    return error


def _kind(status: int, code: str, wait: Optional[float]) -> type[PandastackError]:
    by_code: dict[str, type[PandastackError]] = {
        "sandbox.failed": SandboxFailed,
        "exec.timeout": SandboxTimeout,
        "execution.timeout": SandboxTimeout,
        "template.build_failed": TemplateBuildError,
        "sandbox.capacity": CapacityError,
        "template.building": CapacityError,
        "host.disk_full": CapacityError,
        "feature.not_offered": NotOfferedError,
    }
    by_status: dict[int, type[PandastackError]] = {
        401: AuthError,
        404: NotFoundError,
        409: ConflictError,
        429: CapacityError,
        501: NotOfferedError,
    }
    if code in by_code:
        return by_code[code]
    if status == 503 and wait is not None:
        return CapacityError
    if code.startswith("auth."):
        return AuthError
    return by_status.get(status, ServerError if status >= 500 else BadRequestError)


def _error_body(response: httpx.Response) -> dict[str, Any]:
    try:
        body = json.loads(response.content)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _field_errors(fields: object) -> list[FieldError]:
    entries = fields if isinstance(fields, list) else []
    return [
        FieldError(str(entry.get("path", "")), str(entry.get("message", "")))
        for entry in entries
        if isinstance(entry, dict)
    ]


def _bare_message(response: httpx.Response) -> str:
    """For an answer that is not of our server: a proxy's page, say."""
    request = response.request
    text = " ".join(response.content[:300].decode("utf-8", "replace").split())
    return f"HTTP {response.status_code} for {request.method} {request.url}" + (f": {text}" if text else ".")


def explain(error: ConnectionError, what: str, sandbox: Optional[SandboxInfo]) -> PandastackError:
    """Says what is known after an answer to something that runs did not come.

    `sandbox` is what the server says of the sandbox now, None where it does not answer or has none.
    """
    about: dict[str, Any] = {"code": error.code, "detail": error.detail}
    if sandbox is not None and sandbox.status == "failed":
        reason = sandbox.failure or "its virtual machine ended"
        return SandboxFailed(
            f"Sandbox {sandbox.id} failed while {what} ran: {reason}",
            code="sandbox.failed",
            hint="Its machine is gone with the memory; delete it and create another.",
        )
    state = (
        f"Sandbox {sandbox.id} is {sandbox.status}." if sandbox else "The server does not answer any more."
    )
    if error.code == "client.timeout":
        return SandboxTimeout(
            f"{what[:1].upper()}{what[1:]} was not answered in time.",
            hint=f"{state} It may still run or wait behind another.",
            **about,
        )
    return ExecInterrupted(f"The connection broke while {what} ran: {error.message}", hint=state, **about)
