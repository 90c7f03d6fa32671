"""Lets one test speak to the blocking classes and to their asyncio twins."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pandastack


class Flavour:
    """`run` gives a call's value, whichever flavour it is of."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._loop = asyncio.new_event_loop() if name == "async" else None
        prefix = "Async" if name == "async" else ""
        self.Client: Any = getattr(pandastack, f"{prefix}Client")
        self.Sandbox: Any = getattr(pandastack, f"{prefix}Sandbox")

    def run(self, call: Any) -> Any:
        if self._loop is None:
            return call
        if inspect.isasyncgen(call):
            return self._loop.run_until_complete(_collect(call))
        return self._loop.run_until_complete(call)

    @contextmanager
    def using(self, manager: Any) -> Iterator[Any]:
        """``with`` or ``async with``."""
        if self._loop is None:
            with manager as value:
                yield value
            return
        value = self.run(manager.__aenter__())
        try:
            yield value
        except BaseException as error:
            if not self.run(manager.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            self.run(manager.__aexit__(None, None, None))

    def close(self) -> None:
        if self._loop is not None:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()


async def _collect(items: Any) -> list[Any]:
    return [item async for item in items]
