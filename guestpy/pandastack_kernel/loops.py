"""One asyncio event loop for the whole session.

A cell with top-level await runs in it. During every other cell the loop only
looks as if it ran, so that create_task() works as in a notebook; asyncio.run()
and run_until_complete() notice and work as well. Between cells the loop runs
whenever it has something to do.
"""

from __future__ import annotations

import asyncio
import functools
from asyncio import new_event_loop
from asyncio.events import _get_running_loop, _set_running_loop
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from select import POLLIN, poll
from selectors import EpollSelector
from typing import Any

from IPython.core import async_helpers


class CellLoop:
    def __init__(self) -> None:
        self._home: asyncio.AbstractEventLoop = new_event_loop()
        self._loop = self._home  # unless user code set another one
        # True while a cell unwinds after SIGINT: its CancelledError means that.
        self.interrupted = False

    def install(self) -> None:
        asyncio.set_event_loop(self._loop)
        async_helpers._asyncio_event_loop = self._loop
        _make_runnable_inside_cells()
        asyncio.set_event_loop = self._noticing(asyncio.set_event_loop)

    def __str__(self) -> str:
        return "asyncio"  # what %autoawait says

    def __call__(self, coro: Coroutine[Any, Any, Any]) -> Any:
        """Run a cell that awaits: IPython's loop runner."""
        loop = self._open()
        task = loop.create_task(coro)
        try:
            return loop.run_until_complete(task)
        except KeyboardInterrupt:
            if task.done():
                raise
            # It came while the loop waited; the cell must not go on later.
            self.interrupted = True
            task.cancel()
            return loop.run_until_complete(task)
        finally:
            self.interrupted = False

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make the loop the running one for code that does not await."""
        _set_running_loop(self._open())
        try:
            yield
        finally:
            _set_running_loop(None)

    def wait_readable(self, fd: int) -> None:
        """Wait until fd is readable; meanwhile the loop runs if it has work."""
        loop = self._open()
        if not _is_due(loop) and not _watch(loop, fd):
            return
        came = False

        def come() -> None:
            nonlocal came
            came = True
            loop.stop()

        loop.add_reader(fd, come)
        try:
            while not came:  # user code may stop the loop as well
                loop.run_forever()
        finally:
            loop.remove_reader(fd)

    def take_turn(self) -> None:
        """Run what is due, once, without waiting."""
        loop = self._open()
        if _is_due(loop):
            loop.call_soon(loop.stop)
            loop.run_forever()

    def _open(self) -> asyncio.AbstractEventLoop:
        """The loop, or another one where user code closed it."""
        if self._loop.is_closed():
            if self._home.is_closed():
                self._home = new_event_loop()
            self._use(self._home)
        return self._loop

    def _use(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = async_helpers._asyncio_event_loop = loop

    def _noticing(self, set_event_loop: Callable[..., None]) -> Callable[..., None]:
        """Wrap set_event_loop: where our loop only looks as if it ran, the one
        that a cell sets takes its place."""

        @functools.wraps(set_event_loop)
        def call(loop: asyncio.AbstractEventLoop | None) -> None:
            set_event_loop(loop)
            running = _get_running_loop()
            if loop is not None and running is not None and not running.is_running():
                self._use(loop)
                _set_running_loop(loop)

        return call


def _is_due(loop: Any) -> bool:
    """Whether the loop has calls that are due, or will be without an event.

    Of loops that are not as Python makes them nobody knows."""
    if not isinstance(getattr(loop, "_selector", None), EpollSelector):
        return True
    return bool(loop._ready or loop._scheduled)  # type: ignore[attr-defined]


def _watch(loop: Any, fd: int) -> bool:
    """Wait for fd or an event of the loop; whether it was the loop's.

    Cheaper than to run the loop, which most sessions never use."""
    poller = poll()
    poller.register(fd, POLLIN)
    poller.register(loop._selector, POLLIN)
    return any(ready != fd for ready, _ in poller.poll())


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
        loop = _get_running_loop()
        if loop is None or loop.is_running():
            return function(*args, **kwargs)
        _set_running_loop(None)
        try:
            return function(*args, **kwargs)
        finally:
            _set_running_loop(loop)

    return call
