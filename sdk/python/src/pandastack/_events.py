"""Server-sent events, read from bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from ._fields import bad_answer

# The last event of a cell has up to 64 MiB of results, and more than that when escaped.
_LONGEST = 256 << 20


class Event(NamedTuple):
    """One event; `name` is "message" where the server gave none."""

    name: str
    data: Any


class EventReader:
    """Gives the events in what it is fed. Text is split at line feeds only, before it is decoded."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Takes the next bytes."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) + sum(map(len, self._data)) > _LONGEST:
            raise bad_answer("an event is too long")
        for line in lines:
            yield from self._line(line[:-1] if line.endswith(b"\r") else line)

    def _line(self, line: bytes) -> Iterator[Event]:
        if not line:
            if self._data:
                yield Event(self._name or "message", _json(b"\n".join(self._data)))
            self._name, self._data = "", []
            return
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if field == b"event":
            self._name = value.decode("utf-8", "replace")
        elif field == b"data":
            self._data.append(value)


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise bad_answer("an event is no JSON") from None
