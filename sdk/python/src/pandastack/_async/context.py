"""A code context: a kernel that keeps its variables from cell to cell."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, List, Optional, Union

from .. import _notebook, _wire
from .._cells import Completion, ExecutionEvent, ExecutionInfo, HistoryEntry
from .._fields import Fields
from .._models import ContextInfo, context_info
from .._notebook import NotebookProgress, NotebookRun
from .._results import Execution
from ..exceptions import ConnectionError, NotFoundError, PandastackError
from ._io import blocking, closing, notify
from .executions import (
    AsyncExecutionHandle,
    AsyncListeners,
    Explain,
    OnError,
    OnEvent,
    OnInput,
    OnResult,
    OnText,
    Stdin,
    run,
)
from .transport import AsyncTransport

_log = logging.getLogger("pandastack")

# Seconds that a kernel's end and a new one's start may take.
_RESTART = 120.0


class AsyncCodeContext(ContextInfo):
    """Runs cells one after another; ``async with`` closes it at the end.

    Contexts of one sandbox share its files and nothing else.
    """

    def __init__(
        self, transport: AsyncTransport, sandbox_path: str, info: ContextInfo, explain: Explain
    ) -> None:
        self._transport = transport
        self._sandbox_path = sandbox_path
        self._path = f"{sandbox_path}/contexts/{_wire.segment(info.id)}"
        self._explain = explain
        self._adopt(info)

    async def run_code(
        self,
        code: str,
        timeout_seconds: Optional[float] = None,
        check: bool = False,
        *,
        timeout: Optional[float] = None,
        on_stdout: Optional[OnText] = None,
        on_stderr: Optional[OnText] = None,
        on_result: Optional[OnResult] = None,
        on_error: Optional[OnError] = None,
        on_event: Optional[OnEvent] = None,
        on_input: Optional[OnInput] = None,
        stdin: Optional[Stdin] = None,
        stop_on_error: bool = False,
        batch: Optional[str] = None,
        max_output: Optional[int] = None,
        max_result: Optional[int] = None,
    ) -> Execution:
        """Runs one cell and waits for its end.

        A cell that raises or runs into its limit is an `Execution` whose `error` says
        so (``Timeout`` at the limit, after which the context can be used again).
        Giving up the wait does not end the cell, nor does a function that raises; `interrupt` does.
        A connection that breaks is taken up again, and the cell runs once.

        Args:
            code: The cell, as in a notebook.
            timeout_seconds: The cell's limit in seconds; None for no limit.
            check: Raise `CellFailed` where the cell has an error.
            timeout: The same as `timeout_seconds`.
            on_stdout: Called with each piece of the output as it comes, never with half a character.
            on_stderr: The same for the error output.
            on_result: Called with each `Result` as it is displayed.
            on_error: Called with the `CellError` of what the cell raised.
            on_event: Called with each `ExecutionEvent`, before the others.
            on_input: Called with the `InputRequest` of ``input()`` and ``getpass()``; what it gives is
                the answer; None ends the input (EOFError). Where it raises, the cell is interrupted.
            stdin: Lines that answer ``input()`` one after another; then comes EOFError. With neither,
                ``input()`` raises at once.
            stop_on_error: Where this cell fails, those that wait with the same `batch` are aborted.
            batch: Any name; none is a batch too.
            max_output: Bytes of stdout, and of stderr, that the execution has (head and tail);
                65,536 by default.
            max_result: Bytes that one result has; 8 MiB by default.

        Raises:
            CellFailed: With `check`, the cell has an error.
            SandboxFailed: The sandbox's machine ended while the cell ran.
            SandboxTimeout: No answer came a minute after the limit.
            ExecInterrupted: The connection broke and did not come back.
            CapacityError: As many cells wait as may.
            NotFoundError: The sandbox or the context is gone.
        """
        to = AsyncListeners(on_stdout, on_stderr, on_result, on_error, on_event, on_input, stdin)
        seconds = _wire.limit(timeout, timeout_seconds)
        body = _wire.cell(
            code,
            seconds,
            allow_stdin=to.answers,
            stop_on_error=stop_on_error,
            batch=batch,
            max_output=max_output,
            max_result=max_result,
        )
        if to.any:
            execution = await run(self.attach(body["id"]), (f"{self._path}/executions", body), to)
        else:
            execution = await self._run(body, seconds)
        return execution.raise_for_error() if check else execution

    async def stream(
        self, code: str, *, timeout: Optional[float] = None, max_output: Optional[int] = None
    ) -> AsyncIterator[ExecutionEvent]:
        """Runs one cell and gives its events as they come; the last one, ``done``, has the `Execution`.

        Closing the iterator before its end does not end the cell. Errors are those of `run_code`.
        """
        body = _wire.cell(code, _wire.limit(timeout, None), max_output=max_output)
        handle = self.attach(body["id"])
        async with closing(handle._follow(0, (f"{self._path}/executions", body))) as events:
            async for event in events:
                yield event

    async def send_comm(
        self,
        comm_id: str,
        data: Optional[Mapping[str, Any]] = None,
        *,
        kind: str = "comm_msg",
        buffers: Sequence[bytes] = (),
        metadata: Optional[Mapping[str, Any]] = None,
        target_name: str = "",
        timeout: Optional[float] = None,
        on_event: Optional[OnEvent] = None,
    ) -> Execution:
        """Sends a message to a comm of the kernel and waits until its callbacks are done.

        It takes its turn in the context's queue, and what the callbacks print, show and send back is its
        execution's. A widget's comm has its model's id: ``send_comm(slider_id, {"method": "update",
        "state": {"value": 7}})`` moves a slider, ``{"method": "custom", "content": {"event": "click"}}``
        clicks a button. A comm that the kernel does not know is no error.

        Args:
            comm_id: Whose message it is.
            data: The message.
            kind: ``comm_open``, ``comm_msg`` or ``comm_close``.
            buffers: Its binary part.
            metadata: Of the message.
            target_name: With ``comm_open``, whom the kernel hands the comm to.
            timeout: Seconds after which the callbacks are interrupted; None for no limit.
            on_event: Called with each `ExecutionEvent`; those of the type ``comm`` are the kernel's answers.

        Raises:
            NotOfferedError: The sandbox goes on from a snapshot whose agent cannot do this yet.
        """
        message = _wire.comm(comm_id, data, kind, buffers=buffers, metadata=metadata, target_name=target_name)
        seconds = _wire.limit(timeout, None)
        body = {"comm": message, "id": _wire.execution_id(), **_wire.sparse(timeout_seconds=seconds)}
        to = AsyncListeners(on_event=on_event)
        return await run(self.attach(body["id"]), (f"{self._path}/comms", body), to)

    async def start(
        self,
        code: str,
        *,
        timeout: Optional[float] = None,
        allow_stdin: bool = False,
        stop_on_error: bool = False,
        batch: Optional[str] = None,
    ) -> AsyncExecutionHandle:
        """Puts one cell into the context's queue and returns at once. Arguments are those of `run_code`.

        Args:
            allow_stdin: ``input()`` waits for `AsyncExecutionHandle.input`.
        """
        body = _wire.cell(
            code,
            _wire.limit(timeout, None),
            detached=True,
            allow_stdin=allow_stdin,
            stop_on_error=stop_on_error,
            batch=batch,
        )
        await self._transport.json("POST", f"{self._path}/executions", body=body, repeatable=True)
        return self.attach(body["id"])

    def attach(self, execution_id: str) -> AsyncExecutionHandle:
        """The handle of a cell by its id, without asking the server."""
        return AsyncExecutionHandle(self._transport, self._sandbox_path, execution_id, self._explain)

    async def execution(self, execution_id: str) -> Execution:
        """One of the latest executions by its id, or what there is of it so far."""
        return await self.attach(execution_id).result()

    async def executions(self) -> List[ExecutionInfo]:
        """The cells that wait, the one that runs, and the latest that ended, the oldest first."""
        answer = await self._transport.json("GET", f"{self._path}/executions")
        return Fields(answer, "the list of executions").items("items", ExecutionInfo.from_dict)

    async def queue(self) -> List[ExecutionInfo]:
        """The cell that runs and those that wait behind it."""
        return [one for one in await self.executions() if one.status in ("queued", "running")]

    async def interrupt(self) -> None:
        """Interrupts the cell that runs, as Ctrl-C does; its execution ends with KeyboardInterrupt."""
        await self._transport.json("POST", f"{self._path}/interrupt")

    async def restart(self) -> AsyncCodeContext:
        """Gives the context a fresh kernel and returns the object itself when that answers.

        Variables are lost, the cell that runs ends with KernelDied, those that wait are aborted.
        """
        answer = await self._transport.json("POST", f"{self._path}/restart", read_timeout=_RESTART)
        self._adopt(context_info(answer))
        return self

    async def complete(self, code: str, cursor_pos: Optional[int] = None) -> Completion:
        """What may stand at a place in the code, its end by default, counted in characters.

        Raises:
            ConflictError: A cell runs; code ``context.busy``.
        """
        body = {"code": code, **({} if cursor_pos is None else {"cursor_pos": cursor_pos})}
        return Completion.from_dict(await self._transport.json("POST", f"{self._path}/complete", body=body))

    async def inspect(
        self, code: str, cursor_pos: Optional[int] = None, detail: int = 0
    ) -> Mapping[str, str]:
        """What the name at a place in the code is, by MIME type; empty where nothing is known.

        With `detail` 1 its source is in it.
        """
        body = {"code": code, **({} if cursor_pos is None else {"cursor_pos": cursor_pos}), "detail": detail}
        answer = await self._transport.json("POST", f"{self._path}/inspect", body=body)
        return Fields(answer, "an inspection").mapping("data")

    async def is_complete(self, code: str) -> str:
        """Whether code is all of a cell: ``complete``, ``incomplete``, ``invalid`` or ``unknown``."""
        answer = await self._transport.json("POST", f"{self._path}/is_complete", body={"code": code})
        return Fields(answer, "an answer").text("status")

    async def history(self, limit: int = 100) -> List[HistoryEntry]:
        """The latest cells that its kernel ran, the oldest first."""
        answer = await self._transport.json("GET", f"{self._path}/history", params={"limit": str(limit)})
        return Fields(answer, "the history").items("items", HistoryEntry.from_dict)

    async def run_notebook(
        self,
        path: Union[str, Path],
        output: Union[str, Path, None] = None,
        *,
        timeout: Optional[float] = None,
        keep_going: bool = False,
        on_progress: Optional[Callable[[NotebookProgress], object]] = None,
    ) -> NotebookRun:
        """Runs the code cells of a notebook here, in order.

        A cell that fails ends the run, unless its tag ``raises-exception`` says that it may; the cells
        after it stay without outputs. One with the tag ``skip-execution`` is left as it is.

        Args:
            path: An ``.ipynb`` of nbformat 4.
            output: Where to write it with its outputs, also when a cell failed or the run did not come to
                its end.
            timeout: Seconds for each cell; None for no limit.
            keep_going: Run the cells after one that failed, too.
            on_progress: Called when a cell begins and when it has ended.

        Raises:
            ValueError: The file is no such notebook.
            FileNotFoundError: There is no folder for `output`; nothing was run.
        """
        run_ = NotebookRun(_notebook.emptied(await blocking(lambda: _notebook.read(path))), [])
        if output is None:
            await self._run_cells(run_, timeout, keep_going, on_progress)
            return run_
        target = output
        await blocking(lambda: _notebook.check_folder(target))
        try:
            await self._run_cells(run_, timeout, keep_going, on_progress)
        finally:
            await blocking(lambda: run_.save(target))
        return run_

    async def _run_cells(
        self,
        to: NotebookRun,
        timeout: Optional[float],
        keep_going: bool,
        on_progress: Optional[Callable[[NotebookProgress], object]],
    ) -> None:
        cells = _notebook.cells_to_run(to.notebook)
        outputs: Optional[_notebook.Outputs] = None
        for number, cell in enumerate(cells, 1):
            code = _notebook.source(cell)
            await notify(on_progress, NotebookProgress(number, len(cells), code))
            outputs = _notebook.Outputs(before=outputs)
            execution = await self.run_code(code, timeout=timeout, on_event=outputs.add)
            cell["outputs"] = outputs.finished(execution)
            cell["execution_count"] = execution.execution_count or None
            to.executions.append(execution)
            await notify(on_progress, NotebookProgress(number, len(cells), code, execution))
            if execution.error is not None and not keep_going and not _notebook.may_fail(cell):
                return

    async def export_notebook(self, path: Union[str, Path], limit: int = 10_000) -> Path:
        """Writes the cells that the context's kernel ran as an ``.ipynb``.

        Cells have the outputs that the sandbox still keeps: those of its latest 256 executions, also
        what threads printed later. The metadata of a cell without says so (``pandastack.outputs`` is
        ``"not kept"``).

        Raises:
            ConflictError: A cell runs; code ``context.busy``.
        """
        entries = await self.history(limit)
        kept = _notebook.kept(entries, await self.executions())
        cells, outputs = [], None
        for entry in entries:
            outputs = _notebook.Outputs(before=outputs)
            known = entry.line in kept and await self._tell(kept[entry.line].id, outputs)
            cells.append(_notebook.cell(entry, outputs.items if known else None))
        return await blocking(lambda: _notebook.write(_notebook.of_cells(cells, self.language), path))

    async def _tell(self, execution_id: str, outputs: _notebook.Outputs) -> bool:
        """Tells outputs what a cell that has ended left by now; False where it is not kept any more."""
        ended = None
        try:
            async with closing(self.attach(execution_id).events(follow="none")) as events:
                async for event in events:
                    outputs.add(event)
                    ended = event.execution or ended
        except NotFoundError:
            return False
        if ended is not None:
            outputs.finished(ended)
        return ended is not None

    async def refresh(self) -> AsyncCodeContext:
        """Asks the server for this object's fields again and returns the object itself."""
        self._adopt(context_info(await self._transport.json("GET", self._path)))
        return self

    async def close(self) -> None:
        """Ends the kernel and its processes; one that is gone already is fine."""
        try:
            await self._transport.json("DELETE", self._path)
        except NotFoundError:
            return

    async def __aenter__(self) -> AsyncCodeContext:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        try:
            await self.close()
        except PandastackError as failure:
            if error is None:
                raise
            _log.warning("context %s was not closed: %s", self.id, failure)

    async def _run(self, body: Mapping[str, Any], seconds: Optional[float]) -> Execution:
        """Runs a cell in one call. Once it may be under way, a server that is gone is waited for."""
        call = f"{self._path}/executions"
        try:
            answer = await self._transport.json(
                "POST",
                call,
                body=body,
                read_timeout=_wire.patience(seconds),
                repeatable=True,
            )
        except ConnectionError as error:
            if error.code == "client.connection_lost":
                with suppress(ConnectionError):
                    return await run(self.attach(body["id"]), (call, body), AsyncListeners())
            error.detail["execution_id"] = body["id"]
            raise await self._explain(error, "the cell") from error
        return Execution.from_dict(answer)

    def _adopt(self, info: ContextInfo) -> None:
        for one in fields(info):
            setattr(self, one.name, getattr(info, one.name))
