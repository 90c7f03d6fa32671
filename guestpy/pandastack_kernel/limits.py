"""Fits messages into one frame: what is too large is cut, and the cut is said."""

from __future__ import annotations

from typing import Any

from . import jsonsafe
from .frames import MAX_FRAME

_ROOM = MAX_FRAME - (1 << 20)  # for everything but the bundle's payloads
_HEAD = 1 << 16  # characters kept of a text/plain that is too large
_MAX_STRING = 1 << 20  # characters kept of any other string that is too large


def certainly_too_large(content: dict[str, Any]) -> bool:
    """A cheap look before encoding: a string has at least a byte a character."""
    data = content.get("data")
    values = data.values() if isinstance(data, dict) else content.values()
    return sum(len(v) for v in values if isinstance(v, str)) > MAX_FRAME


def fit(content: Any) -> Any:
    """A copy of content that fits into one frame."""
    if isinstance(content.get("data"), dict) and "metadata" in content:
        data, metadata = _fit_bundle(content["data"], content["metadata"])
        return {**content, "data": data, "metadata": metadata}
    cut = _cut_strings(content)
    if len(jsonsafe.dumps(cut)) <= _ROOM:
        return cut
    return {
        "status": "error",
        "ename": "MessageTooLarge",
        "evalue": f"the message exceeds {MAX_FRAME} bytes",
        "traceback": [],
    }


def _fit_bundle(
    data: dict[str, Any], metadata: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Drop the largest payloads; text/plain says which and keeps its head."""
    sizes = {mime: _size(value) for mime, value in data.items()}
    kept, dropped = dict(sizes), {}
    while kept and sum(kept.values()) > _ROOM:
        largest = max(kept, key=lambda mime: kept[mime])
        dropped[largest] = kept.pop(largest)
    fitted = {mime: data[mime] for mime in kept}
    text = jsonsafe.safe_str(data.get("text/plain", ""))[:_HEAD]
    notes = [f"[{mime} left out: {size} bytes]" for mime, size in dropped.items()]
    fitted["text/plain"] = "\n".join([text, *notes] if text else notes)
    return fitted, {**metadata, "pandastack": {"truncated": dropped}}


def _size(value: Any) -> int:
    return len(value) if isinstance(value, bytes) else len(jsonsafe.dumps(value))


def _cut_strings(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _MAX_STRING:
        return f"{value[:_MAX_STRING]}\n[cut: {len(value)} characters]"
    if isinstance(value, dict):
        return {key: _cut_strings(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut_strings(item) for item in value]
    return value
