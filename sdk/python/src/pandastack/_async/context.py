"""A code context: a kernel that keeps its variables from cell to cell."""

from __future__ import annotations

import logging
from dataclasses import fields
from types import TracebackType
from typing import Awaitable, Callable, Optional

from .. import _wire
from .._models import ContextInfo, context_info
from .._results import Execution
from ..exceptions import ConnectionError, NotFoundError, PandastackError
from .transport import AsyncTransport

_log = logging.getLogger("pandastack")

Explain = Callable[[ConnectionError, str], Awaitable[PandastackError]]


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
    ) -> Execution:
        """Runs one cell and waits for its end.

        A cell that raises or runs into its limit is an `Execution` whose `error` says
        so (``Timeout`` at the limit, after which the context can be used again).
        Giving up the wait does not end the cell; `interrupt` does.

        Args:
            code: The cell, as in a notebook.
            timeout_seconds: The cell's limit in seconds; None for no limit.
            check: Raise `CellFailed` where the cell has an error.
            timeout: The same as `timeout_seconds`.

        Raises:
            CellFailed: With `check`, the cell has an error.
            SandboxFailed: The sandbox's machine ended while the cell ran.
            SandboxTimeout: No answer came a minute after the limit.
            ExecInterrupted: The connection broke and did not come back.
            NotFoundError: The sandbox or the context is gone.
        """
        seconds = _wire.limit(timeout, timeout_seconds)
        body = {"code": code, "id": _wire.execution_id(), **_wire.sparse(timeout_seconds=seconds)}
        try:
            answer = await self._transport.json(
                "POST",
                f"{self._path}/executions",
                body=body,
                read_timeout=_wire.patience(seconds),
                repeatable=True,
            )
        except ConnectionError as error:
            error.detail["execution_id"] = body["id"]
            raise await self._explain(error, "the cell") from error
        execution = Execution.from_dict(answer)
        return execution.raise_for_error() if check else execution

    async def execution(self, execution_id: str) -> Execution:
        """One of the latest executions by its id; `status` is ``running`` until its end."""
        path = f"{self._sandbox_path}/executions/{_wire.segment(execution_id)}"
        return Execution.from_dict(await self._transport.json("GET", path))

    async def interrupt(self) -> None:
        """Interrupts the cell that runs, as Ctrl-C does; its execution ends with KeyboardInterrupt."""
        await self._transport.json("POST", f"{self._path}/interrupt")

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

    def _adopt(self, info: ContextInfo) -> None:
        for one in fields(info):
            setattr(self, one.name, getattr(info, one.name))
