"""Strict JSON out of whatever user code hands over."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from json import JSONEncoder
from math import isfinite
from typing import Any

_MAX_DEPTH = 64
_MAX_INT = 10**4000  # Python refuses to write much longer ones

_encode = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def dumps(value: Any) -> bytes:
    """Encode value as UTF-8 JSON that every strict parser accepts.

    NaN and the infinities become null, bytes become base64, objects JSON does
    not know become their repr, lone surrogates become U+FFFD.
    """
    try:
        text = _encode(value)
    except (ValueError, TypeError, RecursionError):
        text = _encode(plain(value))
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Going through UTF-16 joins split pairs and marks what stays alone.
        whole = text.encode("utf-16-le", "surrogatepass")
        return whole.decode("utf-16-le", "replace").encode()


def plain(value: Any, depth: int = 0) -> Any:
    """Rebuild value from JSON's own types. Never raises."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    if isinstance(value, int):
        return int(value) if abs(value) < _MAX_INT else safe_repr(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return b64encode(value).decode("ascii")
    if depth > _MAX_DEPTH:
        return "..."
    try:
        return _plain_object(value, depth + 1)
    except Exception:
        return safe_repr(value)


def _plain_object(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping):
        return {_key(k): plain(v, depth) for k, v in value.items()}
    if hasattr(value, "tolist"):  # NumPy scalars and arrays
        return plain(value.tolist(), depth)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, (list, tuple, set, frozenset)) or (
        isinstance(value, Iterable) and hasattr(value, "__len__")
    ):
        return [plain(item, depth) for item in value]
    return safe_repr(value)


def _key(key: Any) -> str:
    return key if isinstance(key, str) else safe_str(key)


def safe_repr(value: Any) -> str:
    """repr(value), or a placeholder where that raises."""
    try:
        return repr(value)
    except Exception:
        return f"<unprintable {type(value).__name__} object>"


def safe_str(value: Any) -> str:
    """str(value), or a placeholder where that raises."""
    try:
        return str(value)
    except Exception:
        return safe_repr(value)
