"""What is kept of a process' output while it comes."""

from __future__ import annotations

from collections import deque
from typing import Any, Optional

from ._events import Event
from ._fields import Fields
from ._models import ExecChunk, StreamedResult
from ._results import TruncatedStream, Truncation
from .exceptions import PandastackError

# Characters of each stream, head and tail together; about what the server keeps for `exec`.
KEPT = 8 << 20


class Kept:
    """The head and the tail of a text that comes in pieces."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head: list[str] = []
        self._head_size = 0
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self._bytes = 0
        self._lines = 0

    def add(self, text: str) -> None:
        self._bytes += len(text.encode("utf-8", "surrogatepass"))
        self._lines += text.count("\n")
        first, rest = text[: self._half - self._head_size], text[self._half - self._head_size :]
        if first:
            self._head.append(first)
            self._head_size += len(first)
        if rest:
            self._tail.append(rest)
            self._tail_size += len(rest)
        while self._tail and self._tail_size - len(self._tail[0]) >= self._half:
            self._tail_size -= len(self._tail.popleft())

    @property
    def text(self) -> str:
        tail = "".join(self._tail)
        return "".join(self._head) + tail[-self._half :]

    @property
    def truncated(self) -> Optional[TruncatedStream]:
        kept = len(self.text.encode("utf-8", "surrogatepass"))
        return TruncatedStream(self._bytes, kept, self._lines) if kept < self._bytes else None


class Output:
    """Makes the parts of a process' stream, and its result, of events."""

    def __init__(self, limit: Optional[int] = None) -> None:
        self._kept = {name: Kept(limit or KEPT) for name in ("stdout", "stderr")}

    def chunk(self, event: Event) -> ExecChunk:
        """The text of an event ``stdout`` or ``stderr``."""
        text = Fields(event.data, "a chunk of output").text("chunk")
        self._kept[event.name].add(text)
        return ExecChunk(event.name, text)

    def result(self, event: Event) -> StreamedResult:
        """What the event ``exit`` says, with the output before it."""
        fields = Fields(event.data, "a process' exit")
        out, err = self._kept["stdout"], self._kept["stderr"]
        cut = Truncation(stdout=out.truncated, stderr=err.truncated)
        return StreamedResult(
            stdout=out.text,
            stderr=err.text,
            exit_code=fields.integer("exit_code"),
            duration_ms=fields.number("duration_ms", 0),
            signal=fields.text("signal", ""),
            truncated=cut if cut != Truncation() else None,
        )

    def attach(self, error: PandastackError) -> PandastackError:
        """Puts the output so far into an error."""
        partial: dict[str, Any] = {name: kept.text for name, kept in self._kept.items()}
        error.detail.update(partial)
        for name, text in partial.items():
            if hasattr(error, f"partial_{name}"):
                setattr(error, f"partial_{name}", text)
        return error
