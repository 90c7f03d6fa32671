"""Values of any library as strict JSON, told apart and bounded. See PROTOCOL.md."""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from .jsonsafe import safe_str

_MAX_STRING = 1000  # characters
_MAX_ITEMS = 100  # of a list or dict that is a value
_MAX_DEPTH = 4


def listed(column: Any) -> list[Any]:
    """The values of a column, array or sequence as Python's own."""
    if type(column).__module__ == "numpy" and column.dtype.kind in "mM":
        column = column.astype(f"{column.dtype.kind}8[us]")  # of ns, tolist makes ints
    return column.tolist() if hasattr(column, "tolist") else list(column)


class Values:
    """Makes values JSON; cut says whether any was shortened."""

    def __init__(self) -> None:
        self.cut = False

    def value(self, value: Any, depth: int = 0) -> Any:
        kind = type(value)
        if value is None or kind is bool or kind is int:
            return value
        if kind is float:
            return value if math.isfinite(value) else _not_finite(value)
        if kind is str:
            return self._text(value)
        if kind.__name__ in ("NAType", "NaTType"):
            return None
        if hasattr(value, "tolist"):  # of NumPy
            return self.value(value.tolist(), depth)
        if isinstance(value, bytes):
            return self._text(base64.b64encode(value).decode("ascii"))
        if depth < _MAX_DEPTH and isinstance(value, Mapping):
            items = self._some(value.items())
            return {self._text(safe_str(k)): self.value(v, depth + 1) for k, v in items}
        if depth < _MAX_DEPTH and isinstance(value, (list, tuple)):
            return [self.value(item, depth + 1) for item in self._some(value)]
        return self._text(_iso(value))

    def _some(self, items: Any) -> Iterable[Any]:
        self.cut = self.cut or len(items) > _MAX_ITEMS
        return islice(items, _MAX_ITEMS)

    def _text(self, text: str) -> str:
        if len(text) <= _MAX_STRING:
            return text
        self.cut = True
        return text[:_MAX_STRING] + "…"


def _not_finite(value: float) -> dict[str, str]:
    name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return {"$numberDouble": name}


def _iso(value: Any) -> str:
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    if isinstance(value, datetime.timedelta):
        return _duration(value)
    return safe_str(value)


def _duration(value: datetime.timedelta) -> str:
    """As pandas writes it: a negative one has days below zero and a time above."""
    minutes, seconds = divmod(value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{value.microseconds:06d}".rstrip("0").rstrip(".")
    return f"P{value.days}DT{hours}H{minutes}M{seconds}{fraction}S"
