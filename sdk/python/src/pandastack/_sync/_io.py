"""What differs between the flavours. Its twin in `_async` has the same names and is written by hand too."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Callable, Optional, TypeVar

import httpx

from .._session import transport_options

A = TypeVar("A")
T = TypeVar("T")
Cancel = threading.Event


class _Process:
    """Stands for this process; a forked child must not write to its parent's connections."""


_process = _Process()


def _forked() -> None:
    global _process
    _process = _Process()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def scope() -> object:
    """What an HTTP session must not outlive: the process."""
    return _process


def new_session(url: str) -> httpx.HTTPTransport:
    """A server's connections."""
    return httpx.HTTPTransport(**transport_options(url))


def exchange(session: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
    """Sends a request. An httpx client above it would add redirects, cookies and netrc, which are
    not wanted, and half a millisecond."""
    response = session.handle_request(request)
    response.request = request
    return response


def pause(seconds: float, cancel: Optional[Cancel] = None) -> None:
    """Waits, but no longer than until `cancel` is set."""
    if cancel is None:
        time.sleep(seconds)
    else:
        cancel.wait(seconds)


def notify(callback: Optional[Callable[[A], object]], value: A) -> None:
    """Calls a function of the user's."""
    if callback is not None:
        callback(value)


def answer(callback: Callable[[A], object], value: A) -> object:
    """What a function of the user's gives."""
    return callback(value)


def each(items: Sequence[A], work: Callable[[A], T], at_once: int) -> list[T]:
    """What work gives for each item, some at once. When one fails, what has not begun is called off."""
    with ThreadPoolExecutor(at_once) as pool:
        begun = [pool.submit(work, item) for item in items]
        try:
            return [one.result() for one in begun]
        finally:
            for one in begun:
                one.cancel()


@contextmanager
def closing(items: Iterator[T]) -> Iterator[Iterator[T]]:
    """Ends a generator, and what it holds open, with the block."""
    try:
        yield items
    finally:
        if isinstance(items, Generator):
            items.close()


def blocking(work: Callable[[], T]) -> T:
    """Runs file work."""
    return work()
