"""Asks for sandboxes, and asks again while the server has no room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from .._create_retry import CreateRetry
from ..exceptions import CreateCancelled, PandastackError
from ._io import Cancel, pause

if TYPE_CHECKING:
    from .client import AsyncClient

# Seconds a start may take: a boot from disk under emulation is the longest.
START_LIMIT = 300.0


async def ask(
    client: AsyncClient,
    path: str,
    body: Optional[Mapping[str, Any]],
    seconds: Optional[float],
    cancel: Optional[Cancel],
) -> Any:
    """The answer of a call that makes sandboxes.

    Args:
        seconds: For how long to ask again, and to wait for an answer; None for the client's
            budget and as long as a start may take.
        cancel: Ends the wait for room.
    """
    budget = client.max_create_retry_seconds if seconds is None else seconds
    retry = CreateRetry(budget, path, client.on_create_retry)
    refusal: Optional[PandastackError] = None
    while True:
        if cancel is not None and cancel.is_set():
            raise CreateCancelled("create was cancelled.", code="client.cancelled") from refusal
        try:
            return await client._transport.json("POST", path, body=body, read_timeout=seconds or START_LIMIT)
        except PandastackError as error:
            wait = retry.delay(error)
            if wait is None:
                raise
            refusal = error
        await pause(wait, cancel)
