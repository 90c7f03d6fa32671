"""Values of any library as strict JSON, told apart and bounded. See PROTOCOL.md."""

from __future__ import annotations

import base64
import contextlib
import datetime
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .jsonsafe import safe_str
from .opened import MAX_ITEMS, MAX_STRING, as_python, opened

_MAX_DEPTH = 8
_MAX_OPENINGS = 8  # of one value: something with every attribute opens for ever
_MAX_SPENT = 1 << 18  # characters; what is in lists of lists multiplies


def listed(column: Any) -> list[Any]:
    """The values of a column, array or sequence as Python's own."""
    return as_python(column) if hasattr(column, "tolist") else list(column)


class Values:
    """Makes values JSON; cut says whether any was shortened."""

    def __init__(self) -> None:
        self.cut = False
        self._spent = 0

    def row(self, values: Iterable[Any]) -> list[Any]:
        """Values with a common bound: in a longer row lists end early."""
        self._spent = 0
        return [self.value(value) for value in values]

    def value(self, value: Any, depth: int = 0, openings: int = 0) -> Any:
        kind = type(value)
        if value is None or kind is bool or kind is int:
            return value
        if kind is float:
            return value if math.isfinite(value) else _not_finite(value)
        if kind is str:
            return self._text(value)
        if kind.__name__ in ("NAType", "NaTType"):
            return None
        inside = _opened(value) if openings < _MAX_OPENINGS else value
        if inside is not value:
            if isinstance(inside, Iterator):
                return self._container(inside, depth)
            return self.value(inside, depth, openings + 1)
        if isinstance(value, bytes):
            return self._text(base64.b64encode(value[:MAX_STRING]).decode("ascii"))
        if isinstance(value, (Mapping, list, tuple)):
            return self._container(value, depth)
        return self._text(_iso(value))

    def _container(self, value: Any, depth: int) -> Any:
        if depth == _MAX_DEPTH:
            self.cut = True
            return "…"
        if isinstance(value, Mapping):
            items = self._some(value.items())
            return {self._text(safe_str(k)): self.value(v, depth + 1) for k, v in items}
        return [self.value(item, depth + 1) for item in self._some(value)]

    def _some(self, items: Iterable[Any]) -> Iterator[Any]:
        for count, item in enumerate(items):
            if count == MAX_ITEMS or self._spent > _MAX_SPENT:
                self.cut = True
                return
            self._spent += 2  # a digit and a comma
            yield item

    def _text(self, text: str) -> str:
        if len(text) > MAX_STRING:
            self.cut = True
            text = text[:MAX_STRING] + "…"
        self._spent += len(text)
        return text


def _not_finite(value: float) -> dict[str, str]:
    name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return {"$numberDouble": name}


def _opened(value: Any) -> Any:
    try:
        return opened(value)
    except Exception:  # it only looks as if it had something inside: a mock
        return value


def _iso(value: Any) -> str:
    with contextlib.suppress(Exception):
        if type(text := value.isoformat()) is str:
            return text
    if isinstance(value, datetime.timedelta):
        return _duration(value)
    return safe_str(value)


def _duration(value: datetime.timedelta) -> str:
    """As pandas writes it: a negative one has days below zero and a time above."""
    minutes, seconds = divmod(value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{value.microseconds:06d}".rstrip("0").rstrip(".")
    return f"P{value.days}DT{hours}H{minutes}M{seconds}{fraction}S"
