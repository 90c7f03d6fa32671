"""What differs between the flavours. Its twin in `_sync` has the same names and is written by hand too."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Callable, Optional, TypeVar

import httpx

from .._session import transport_options

A = TypeVar("A")
T = TypeVar("T")
Cancel = asyncio.Event


def scope() -> object:
    """What an HTTP session must not outlive: the running event loop."""
    return asyncio.get_running_loop()


def new_session(url: str) -> httpx.AsyncHTTPTransport:
    """A server's connections."""
    return httpx.AsyncHTTPTransport(**transport_options(url))


async def exchange(session: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
    """Sends a request. An httpx client above it would add redirects, cookies and netrc, which are
    not wanted, and half a millisecond."""
    response = await session.handle_async_request(request)
    response.request = request
    return response


async def pause(seconds: float, cancel: Optional[Cancel] = None) -> None:
    """Waits, but no longer than until `cancel` is set."""
    if cancel is None:
        await asyncio.sleep(seconds)
        return
    try:
        await asyncio.wait_for(cancel.wait(), seconds)
    except asyncio.TimeoutError:
        return


async def notify(callback: Optional[Callable[[A], object]], value: A) -> None:
    """Calls a function of the user's, which may be a coroutine's."""
    if callback is not None:
        await answer(callback, value)


async def answer(callback: Callable[[A], object], value: A) -> object:
    """What a function of the user's gives, which may be a coroutine's."""
    called = callback(value)
    return await called if inspect.isawaitable(called) else called


async def each(items: Sequence[A], work: Callable[[A], Awaitable[T]], at_once: int) -> list[T]:
    """What work gives for each item, some at once. When one fails, the others are called off."""
    turns = asyncio.Semaphore(at_once)

    async def one(item: A) -> T:
        async with turns:
            return await work(item)

    tasks = [asyncio.ensure_future(one(item)) for item in items]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def closing(items: AsyncIterator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """Ends a generator, and what it holds open, with the block."""
    try:
        yield items
    finally:
        if isinstance(items, AsyncGenerator):
            await items.aclose()


async def blocking(work: Callable[[], T]) -> T:
    """Runs file work without holding up the event loop."""
    return await asyncio.get_running_loop().run_in_executor(None, work)
