"""What a cell leaves: `Execution`, its `Result` objects and its `CellError`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from . import _chart, _table
from ._chart import Chart
from ._fields import Fields
from ._table import Table
from ._text import rendered
from .exceptions import CellFailed


class _Accessors:
    """One property for each representation. Binary ones (png, jpeg, pdf) are base64 text."""

    def _find(self, mime: str) -> Any:
        raise NotImplementedError

    @property
    def text(self) -> Optional[str]:
        """``text/plain``."""
        return self._text("text/plain")

    @property
    def html(self) -> Optional[str]:
        """``text/html``; a DataFrame's table."""
        return self._text("text/html")

    @property
    def markdown(self) -> Optional[str]:
        """``text/markdown``."""
        return self._text("text/markdown")

    @property
    def latex(self) -> Optional[str]:
        """``text/latex``."""
        return self._text("text/latex")

    @property
    def svg(self) -> Optional[str]:
        """``image/svg+xml``."""
        return self._text("image/svg+xml")

    @property
    def png(self) -> Optional[str]:
        """``image/png``, base64."""
        return self._text("image/png")

    @property
    def jpeg(self) -> Optional[str]:
        """``image/jpeg``, base64."""
        return self._text("image/jpeg")

    @property
    def pdf(self) -> Optional[str]:
        """``application/pdf``, base64."""
        return self._text("application/pdf")

    @property
    def javascript(self) -> Optional[str]:
        """``application/javascript``."""
        return self._text("application/javascript")

    @property
    def json(self) -> Any:
        """``application/json`` as a Python value."""
        return self._find("application/json")

    @property
    def chart(self) -> Optional[Chart]:
        """What a figure of matplotlib or plotly shows, as values; `png` is its picture."""
        value = self._find(_chart.MIME)
        return None if value is None else Chart.from_dict(value)

    @property
    def table(self) -> Optional[Table]:
        """A table of pandas, polars or pyarrow as values: its beginning, and how large the whole is."""
        value = self._find(_table.MIME)
        return None if value is None else Table.from_dict(value)

    def _text(self, mime: str) -> Optional[str]:
        value = self._find(mime)
        return value if isinstance(value, str) else None


@dataclass(frozen=True)
class Result(_Accessors):
    """One displayed object with all its representations.

    Attributes:
        data: By MIME type: JSON types are Python values, binary types base64 text, all others text.
        metadata: What the object said about its representations.
        is_main_result: True for the value of the cell's last expression.
        display_id: The display's id, where it has one.
    """

    data: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    is_main_result: bool = False
    display_id: str = ""

    @classmethod
    def from_dict(cls, data: object) -> Result:
        """Reads the server's JSON."""
        fields = Fields(data, "a result")
        return cls(
            data=fields.mapping("data"),
            metadata=fields.mapping("metadata"),
            is_main_result=fields.flag("is_main_result", False),
            display_id=fields.text("display_id", ""),
        )

    @property
    def raw(self) -> Mapping[str, Any]:
        """The same as `data`."""
        return self.data

    def formats(self) -> list[str]:
        """The MIME types there are."""
        return list(self.data)

    def _find(self, mime: str) -> Any:
        return self.data.get(mime)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        # A Result shown in a notebook looks there as it would in the session.
        return dict(self.data), dict(self.metadata)


@dataclass(frozen=True)
class CellError:
    """Why a cell failed: an exception's class, ``Timeout``, or ``KernelDied``.

    Attributes:
        name: The exception's class.
        value: Its message.
        traceback: Formatted, without colours.
        exit_code: Of a kernel that ended.
        signal: That ended the kernel.
    """

    name: str
    value: str = ""
    traceback: str = ""
    exit_code: Optional[int] = None
    signal: str = ""

    @classmethod
    def from_dict(cls, data: object) -> CellError:
        """Reads the server's JSON."""
        fields = Fields(data, "an execution's error")
        return cls(
            name=fields.text("name"),
            value=fields.text("value", ""),
            traceback=fields.text("traceback", ""),
            exit_code=fields.optional("exit_code", lambda _: fields.integer("exit_code")),
            signal=fields.text("signal", ""),
        )

    def __str__(self) -> str:
        if not self.traceback:
            return self.summary
        # Where the server ended a cell, the traceback says where, and not why.
        by_server = self.name in ("Timeout", "KernelDied") and self.summary not in self.traceback
        return f"{self.traceback}\n{self.summary}" if by_server else self.traceback

    @property
    def summary(self) -> str:
        """One line: the name and the message."""
        return f"{self.name}: {self.value}" if self.value else self.name


@dataclass(frozen=True)
class TruncatedStream:
    """How large a stream was and how much of it (head and tail) is here, in bytes.

    `lines` are those of the whole.
    """

    bytes: int
    kept: int
    lines: int = 0

    @classmethod
    def from_dict(cls, data: object) -> TruncatedStream:
        """Reads the server's JSON."""
        fields = Fields(data, "a truncated stream")
        return cls(fields.integer("bytes"), fields.integer("kept"), fields.integer("lines", 0))


@dataclass(frozen=True)
class Truncation:
    """What was left out of an answer; None and 0 where nothing was.

    Attributes:
        results: How many results are missing.
        partial_results: How many of those that are here lack representations, which were too large;
            ``metadata["pandastack"]["truncated"]`` of each has their sizes.
    """

    stdout: Optional[TruncatedStream] = None
    stderr: Optional[TruncatedStream] = None
    results: int = 0
    partial_results: int = 0

    @classmethod
    def from_dict(cls, data: object) -> Truncation:
        """Reads the server's JSON."""
        fields = Fields(data, "a truncation")
        return cls(
            stdout=fields.optional("stdout", TruncatedStream.from_dict),
            stderr=fields.optional("stderr", TruncatedStream.from_dict),
            results=fields.integer("results", 0),
            partial_results=fields.integer("partial_results", 0),
        )


@dataclass(frozen=True)
class InputRequest:
    """What ``input()`` or ``getpass()`` ask; what a `password` is answered with is not to be shown."""

    prompt: str = ""
    password: bool = False

    @classmethod
    def from_dict(cls, data: object) -> InputRequest:
        """Reads the server's JSON."""
        fields = Fields(data, "a question")
        return cls(fields.text("prompt", ""), fields.flag("password", False))


@dataclass(frozen=True)
class Execution(_Accessors):
    """One cell and what came of it.

    The accessors (`text`, `html`, `png`, …) look at the main result first, then at
    the other results from the last to the first; None where no result has it.

    Attributes:
        results: One for each displayed object, in order.
        error: None for a cell that ended well.
        status: ``queued``, ``running``, ``ok``, ``error``, ``timeout``, ``died`` or ``aborted``.
        duration_ms: Milliseconds the cell took in the sandbox.
        execution_count: The number in ``In [n]``.
        context_restarted: True when the context's variables are gone.
        truncated: What was left out because it was too large; `ExecutionHandle.output` has all of it.
        events: The number of the newest event that is in here.
        input: The question that waits for an answer.
    """

    results: list[Result] = field(default_factory=list)
    stdout: str = ""
    stderr: str = ""
    error: Optional[CellError] = None
    status: str = "ok"
    duration_ms: float = 0.0
    execution_count: int = 0
    context_restarted: bool = False
    truncated: Optional[Truncation] = None
    id: str = ""
    context_id: str = ""
    events: int = 0
    input: Optional[InputRequest] = None

    @classmethod
    def from_dict(cls, data: object) -> Execution:
        """Reads the server's JSON."""
        fields = Fields(data, "an execution")
        return cls(
            results=fields.items("results", Result.from_dict),
            stdout=fields.text("stdout", ""),
            stderr=fields.text("stderr", ""),
            error=fields.optional("error", CellError.from_dict),
            status=fields.text("status"),
            duration_ms=fields.number("duration_ms", 0),
            execution_count=fields.integer("execution_count", 0),
            context_restarted=fields.flag("context_restarted", False),
            truncated=fields.optional("truncated", Truncation.from_dict),
            id=fields.text("id", ""),
            context_id=fields.text("context_id", ""),
            events=fields.integer("events", 0),
            input=fields.optional("input", InputRequest.from_dict),
        )

    @property
    def ok(self) -> bool:
        """True for a cell that ended well."""
        return self.status == "ok"

    @property
    def exit_code(self) -> int:
        """0 for a cell without an error, else the kernel's exit code or 1."""
        if self.error is None:
            return 0
        return self.error.exit_code or 1

    @property
    def rendered(self) -> dict[str, str]:
        """`logs` as a terminal shows them: carriage returns and backspaces are applied."""
        return {name: rendered(text) for name, text in self.logs.items()}

    @property
    def logs(self) -> dict[str, str]:
        """``{"stdout": …, "stderr": …}``."""
        return {"stdout": self.stdout, "stderr": self.stderr}

    def raise_for_error(self) -> Execution:
        """Returns the execution itself.

        Raises:
            CellFailed: The cell has an error.
        """
        if self.error is not None:
            raise CellFailed(self.error.summary, code=f"cell.{self.status}", execution=self)
        return self

    def _find(self, mime: str) -> Any:
        return next((r.data[mime] for r in self._by_weight() if r.data.get(mime) is not None), None)

    def _by_weight(self) -> Iterator[Result]:
        yield from (r for r in reversed(self.results) if r.is_main_result)
        yield from (r for r in reversed(self.results) if not r.is_main_result)
