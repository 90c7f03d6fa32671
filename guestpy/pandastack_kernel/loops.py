"""One asyncio event loop for the whole session.

A cell with top-level await runs in it. During every other cell the loop only
looks as if it ran, so that create_task() works as in a notebook; asyncio.run()
and run_until_complete() notice and work as well. Between cells the loop runs
only while tasks are left.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from asyncio import events
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from IPython.core import async_helpers


class CellLoop:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # True while a cell unwinds after SIGINT: its CancelledError means that.
        self.interrupted = False

    def install(self) -> None:
        asyncio.set_event_loop(self._loop)
        async_helpers._asyncio_event_loop = self._loop
        _make_runnable_inside_cells()

    def __str__(self) -> str:
        return "asyncio"  # what %autoawait says

    def __call__(self, coro: Coroutine[Any, Any, Any]) -> Any:
        """Run a cell that awaits: IPython's loop runner."""
        task = self._loop.create_task(coro)
        try:
            return self._loop.run_until_complete(task)
        except KeyboardInterrupt:
            if task.done():
                raise
            # It came while the loop waited; the cell must not go on later.
            self.interrupted = True
            task.cancel()
            return self._loop.run_until_complete(task)
        finally:
            self.interrupted = False

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Make the loop the running one for code that does not await."""
        events._set_running_loop(self._loop)
        try:
            yield
        finally:
            events._set_running_loop(None)

    def wait_readable(self, fd: int) -> None:
        """If tasks are left, let them run until fd is readable."""
        if self._loop.is_closed() or not asyncio.all_tasks(self._loop):
            return
        self._loop.add_reader(fd, self._loop.stop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.remove_reader(fd)


def _make_runnable_inside_cells() -> None:
    base = asyncio.BaseEventLoop
    base.run_until_complete = _outside(base.run_until_complete)  # type: ignore
    base.run_forever = _outside(base.run_forever)  # type: ignore
    asyncio.Runner.run = _outside(asyncio.Runner.run)  # type: ignore
    asyncio.run = asyncio.runners.run = _outside(asyncio.run)


def _outside(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap function to run outside a loop that only looks as if it ran."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        loop = events._get_running_loop()
        if loop is None or loop.is_running():
            return function(*args, **kwargs)
        events._set_running_loop(None)
        try:
            return function(*args, **kwargs)
        finally:
            events._set_running_loop(loop)

    return call
