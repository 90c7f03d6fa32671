"""What the server says of a cell on its way, and what a kernel answers to questions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

from ._fields import Fields
from ._results import CellError, Execution, InputRequest, Result


@dataclass(frozen=True)
class Dropped:
    """Events that were too many to keep: those from `first` to the event's own number."""

    first: int
    bytes: int
    stdout_bytes: int = 0
    stderr_bytes: int = 0

    @classmethod
    def from_dict(cls, data: object) -> Dropped:
        """Reads the server's JSON."""
        fields = Fields(data, "dropped events")
        out = Fields(fields.mapping("stdout"), "dropped output")
        err = Fields(fields.mapping("stderr"), "dropped output")
        return cls(
            fields.integer("first"), fields.integer("bytes"), out.integer("bytes", 0), err.integer("bytes", 0)
        )


@dataclass(frozen=True)
class ExecutionEvent:
    """One event of a cell. Fields that its type does not name are empty.

    Attributes:
        seq: Its number, from 1.
        type: ``started`` (it had waited), ``stdout``, ``stderr`` (`text`), ``result``,
            ``display_update`` (`result`), ``clear_output`` (`wait`), ``error``, ``input_request`` (`input`),
            ``comm``, ``dropped`` or, last, ``done`` (`execution`).
        text: Never cut within a character; carriage returns as they are.
        wait: To clear at the next output.
    """

    seq: int
    type: str
    text: str = ""
    result: Optional[Result] = None
    error: Optional[CellError] = None
    wait: bool = False
    input: Optional[InputRequest] = None
    comm: Optional[dict[str, Any]] = None
    dropped: Optional[Dropped] = None
    execution: Optional[Execution] = None

    @classmethod
    def from_dict(cls, data: object) -> ExecutionEvent:
        """Reads the server's JSON."""
        fields = Fields(data, "an event")
        return cls(
            seq=fields.integer("seq"),
            type=fields.text("type"),
            text=fields.text("text", ""),
            result=fields.optional("result", Result.from_dict),
            error=fields.optional("error", CellError.from_dict),
            wait=fields.flag("wait", False),
            input=fields.optional("input", InputRequest.from_dict),
            comm=fields.optional("comm", lambda _: fields.mapping("comm")),
            dropped=fields.optional("dropped", Dropped.from_dict),
            execution=fields.optional("execution", Execution.from_dict),
        )


@dataclass(frozen=True)
class ExecutionInfo:
    """A cell without its output.

    Attributes:
        status: ``queued``, ``running``, ``ok``, ``error``, ``timeout``, ``died`` or ``aborted``.
        position: In its context's queue, from 1; 0 when it does not wait.
        code: Its beginning, at most 1,024 bytes.
        comm_id: The comm that it is a message to, instead of code.
        execution_count: The number in ``In [n]``, once it has ended; 0 without one.
        events: The number of the newest event.
        queued_at: RFC 3339, by the sandbox's clock, as are the others; "" for what has not happened.
        input: The question that waits for an answer.
    """

    id: str
    context_id: str = ""
    status: str = ""
    position: int = 0
    code: str = ""
    batch: str = ""
    events: int = 0
    queued_at: str = ""
    started_at: str = ""
    ended_at: str = ""
    input: Optional[InputRequest] = None
    comm_id: str = ""
    execution_count: int = 0

    @classmethod
    def from_dict(cls, data: object) -> ExecutionInfo:
        """Reads the server's JSON."""
        fields = Fields(data, "an execution")
        return cls(
            id=fields.text("id"),
            context_id=fields.text("context_id", ""),
            status=fields.text("status"),
            position=fields.integer("position", 0),
            code=fields.text("code", ""),
            batch=fields.text("batch", ""),
            events=fields.integer("events", 0),
            queued_at=fields.text("queued_at", ""),
            started_at=fields.text("started_at", ""),
            ended_at=fields.text("ended_at", ""),
            input=fields.optional("input", InputRequest.from_dict),
            comm_id=fields.text("comm_id", ""),
            execution_count=fields.integer("execution_count", 0),
        )


@dataclass(frozen=True)
class Completion:
    """What may replace the characters of the code from `cursor_start` to `cursor_end`."""

    matches: list[str] = field(default_factory=list)
    cursor_start: int = 0
    cursor_end: int = 0

    @classmethod
    def from_dict(cls, data: object) -> Completion:
        """Reads the server's JSON."""
        fields = Fields(data, "a completion")
        return cls(
            fields.items("matches", str), fields.integer("cursor_start", 0), fields.integer("cursor_end", 0)
        )


@dataclass(frozen=True)
class HistoryEntry:
    """A cell that a context ran; `line` is its execution count."""

    session: int
    line: int
    code: str

    @classmethod
    def from_dict(cls, data: object) -> HistoryEntry:
        """Reads the server's JSON."""
        fields = Fields(data, "an entry of the history")
        return cls(fields.integer("session"), fields.integer("line"), fields.text("code"))
