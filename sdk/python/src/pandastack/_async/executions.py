"""Cells as executions: followed as they run, attached to again, answered and cancelled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from io import StringIO
from time import monotonic
from typing import Any, Awaitable, Callable, Optional, Union

from .. import _wire
from .._cells import ExecutionEvent
from .._results import CellError, Execution, InputRequest, Result
from ..exceptions import ConnectionError, PandastackError
from ._io import answer, closing, notify, pause
from .transport import AsyncTransport

Explain = Callable[[ConnectionError, str], Awaitable[PandastackError]]
OnText = Callable[[str], object]
OnResult = Callable[[Result], object]
OnError = Callable[[CellError], object]
OnEvent = Callable[[ExecutionEvent], object]
OnInput = Callable[[InputRequest], object]
Stdin = Union[str, Iterable[str]]

# How long a stream that broke is taken up again without a single new event, in seconds: a server
# that is started anew finds its sandboxes in less.
_REATTACH = 30.0
_WAITS = (0.1, 0.2, 0.4, 0.8, 1.6)
_UNDER_WAY = ("queued", "running")
# What input() gets when nothing is left to answer with: EOFError.
_END_OF_INPUT = "\x04"


class AsyncExecutionHandle:
    """One cell, wherever it is on its way. It goes on whether or not anybody listens.

    Attributes:
        id: To `AsyncCodeContext.attach` to it again.
    """

    def __init__(
        self, transport: AsyncTransport, sandbox_path: str, execution_id: str, explain: Explain
    ) -> None:
        self.id = execution_id
        self._transport = transport
        self._path = f"{sandbox_path}/executions/{_wire.segment(execution_id)}"
        self._explain = explain

    async def events(self, after: int = 0, *, follow: str = "done") -> AsyncIterator[ExecutionEvent]:
        """Its events with a number above `after`, as they come, to its end.

        A connection that breaks is taken up where it ended.

        Args:
            follow: ``"none"`` ends with what there is by now; ``"all"`` goes on after ``done`` with what
                the cell's threads and processes print then, until the context's kernel ends or the
                sandbox no longer keeps the execution.

        Raises:
            ValueError: `follow` is none of them.
            ExecInterrupted: The server did not come back for half a minute.
            NotFoundError: The execution, or its sandbox, is gone.
        """
        if follow not in ("none", "done", "all"):
            raise ValueError(f"follow is 'none', 'done' or 'all', not {follow!r}")
        async with closing(self._follow(after, None, follow)) as events:
            async for event in events:
                yield event

    async def wait(self) -> Execution:
        """Waits for its end and gives all that came of it. Errors are those of `events`."""
        so_far = await self.result()
        if so_far.status not in _UNDER_WAY:
            return so_far
        async with closing(self._follow(so_far.events, None)) as events:
            async for event in events:
                if event.execution is not None:
                    return event.execution
        return await self.result()

    async def result(self) -> Execution:
        """What came of it, or what there is so far."""
        return Execution.from_dict(await self._transport.json("GET", self._path))

    async def cancel(self) -> None:
        """Takes it out of its context's queue, or interrupts it. One that has ended is left alone."""
        await self._transport.json("POST", f"{self._path}/cancel", repeatable=True)

    async def input(self, text: str) -> None:
        """Answers what it asks (`Execution.input`): one line without its end."""
        await self._transport.json("POST", f"{self._path}/input", body={"text": text})

    async def output(self, stream: str = "stdout") -> str:
        """All that it printed by now, also what `Execution.stdout` has no room for.

        The sandbox keeps 256 MiB of a cell's events; a line tells where more was printed than that.
        """
        whole = await self._transport.get_bytes(f"{self._path}/output", {"stream": stream})
        return whole.decode("utf-8", "replace")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    async def _follow(
        self, after: int, begin: Optional[tuple[str, Mapping[str, Any]]], until: str = "done"
    ) -> AsyncIterator[ExecutionEvent]:
        """Follows it; `begin` is the call that begins it, which may be made again."""
        last, deadline = after, monotonic() + _REATTACH
        waits = iter(_WAITS)
        while True:
            began = monotonic()
            try:
                async with closing(self._connection(last, begin, until)) as events:
                    async for event in events:
                        if event.seq <= last:
                            continue
                        last, deadline, waits = event.seq, monotonic() + _REATTACH, iter(_WAITS)
                        yield event
                        if event.type == "done" and until == "done":
                            return
                if until == "none" or (last > 0 and await self._ended(last)):
                    return
                lost = ConnectionError("The stream ended before the cell did.", code="client.connection_lost")
            except ConnectionError as error:
                lost = error
            if monotonic() - began > _REATTACH:  # open, if only in silence: the server was there
                deadline, waits = monotonic() + _REATTACH, iter(_WAITS)
            if monotonic() > deadline or lost.code == "client.no_server":
                lost.detail["execution_id"] = self.id
                raise await self._explain(lost, "the cell") from lost
            await pause(next(waits, _WAITS[-1]))

    async def _ended(self, last: int) -> bool:
        """Whether nothing follows an event: it may have been the last one that there is."""
        so_far = await self.result()
        return so_far.status not in _UNDER_WAY and so_far.events <= last

    async def _connection(
        self, last: int, begin: Optional[tuple[str, Mapping[str, Any]]], until: str
    ) -> AsyncIterator[ExecutionEvent]:
        if begin is not None and last == 0:
            opened = self._transport.events("POST", begin[0], body=begin[1])
        else:
            params = {"after": str(last), **({} if until == "done" else {"follow": until})}
            opened = self._transport.events("GET", f"{self._path}/events", params=params)
        async with opened as events:
            async for event in events:
                if event.name == "failure":
                    raise _wire.error_in_stream(event.data)
                yield ExecutionEvent.from_dict(event.data)


class AsyncListeners:
    """The functions that a caller wants called while a cell runs."""

    def __init__(
        self,
        on_stdout: Optional[OnText] = None,
        on_stderr: Optional[OnText] = None,
        on_result: Optional[OnResult] = None,
        on_error: Optional[OnError] = None,
        on_event: Optional[OnEvent] = None,
        on_input: Optional[OnInput] = None,
        stdin: Optional[Stdin] = None,
    ) -> None:
        if on_input is not None and stdin is not None:
            raise ValueError("give on_input or stdin, not both")
        self._on_stdout = on_stdout
        self._on_stderr = on_stderr
        self._on_result = on_result
        self._on_error = on_error
        self._on_event = on_event
        self._on_input = on_input
        # Lines end where Python's own input has its ends, and at nothing else.
        lines = StringIO(stdin, None) if isinstance(stdin, str) else stdin
        self._lines = None if lines is None else iter(lines)
        live = (on_stdout, on_stderr, on_result, on_error, on_event)
        self.answers = on_input is not None or stdin is not None
        self.any = self.answers or any(one is not None for one in live)

    async def hear(self, event: ExecutionEvent, handle: AsyncExecutionHandle) -> None:
        """Calls those that an event is for."""
        await notify(self._on_event, event)
        if event.type == "stdout":
            await notify(self._on_stdout, event.text)
        elif event.type == "stderr":
            await notify(self._on_stderr, event.text)
        elif event.type == "result" and event.result is not None:
            await notify(self._on_result, event.result)
        elif event.type == "error" and event.error is not None:
            await notify(self._on_error, event.error)
        elif event.type == "input_request" and event.input is not None and self.answers:
            await self._answer(event.input, handle)

    async def _answer(self, question: InputRequest, handle: AsyncExecutionHandle) -> None:
        try:
            await handle.input(await self._text(question))
        except BaseException:
            await handle.cancel()  # nobody else would answer it
            raise

    async def _text(self, question: InputRequest) -> str:
        """One line without its end, which it may have."""
        if self._on_input is not None:
            given = await answer(self._on_input, question)
            return _END_OF_INPUT if given is None else _without_end(str(given))
        assert self._lines is not None
        return _without_end(next(self._lines, _END_OF_INPUT))


def _without_end(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")


async def run(
    handle: AsyncExecutionHandle, begin: tuple[str, Mapping[str, Any]], listeners: AsyncListeners
) -> Execution:
    """Begins a cell and follows it to its end."""
    async with closing(handle._follow(0, begin)) as events:
        async for event in events:
            await listeners.hear(event, handle)
            if event.execution is not None:
                return event.execution
    return await handle.result()
