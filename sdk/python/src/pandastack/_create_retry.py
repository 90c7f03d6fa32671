"""When to ask again for a sandbox that the server has no room for now."""

from __future__ import annotations

import logging
import math
import os
import random
import time
from dataclasses import dataclass, field
from typing import Callable, Optional

from .exceptions import PandastackError

DEFAULT_BUDGET = 60.0
_ENV = "PANDASTACK_MAX_CREATE_RETRY_SECONDS"
_log = logging.getLogger("pandastack.client")


@dataclass(frozen=True)
class CreateRetryEvent:
    """Handed to ``on_create_retry`` before each wait; times are seconds."""

    method: str
    path: str
    attempt: int
    status_code: int
    error: str
    delay_seconds: float
    elapsed_seconds: float
    retry_after_seconds: Optional[float]


OnCreateRetry = Callable[[CreateRetryEvent], None]


def budget(given: Optional[float]) -> float:
    """Seconds for which to ask again: the argument, else the environment, else 60; 0 turns it off."""
    if given is not None:
        if not (math.isfinite(given) and given >= 0):
            raise ValueError("max_create_retry_seconds is a number of seconds, 0 or more")
        return float(given)
    value = os.environ.get(_ENV, "")
    try:
        seconds = float(value or DEFAULT_BUDGET)
    except ValueError:
        seconds = -1.0
    if math.isfinite(seconds) and seconds >= 0:
        return seconds
    _log.warning("%s=%r is not a number of seconds; using %g", _ENV, value, DEFAULT_BUDGET)
    return DEFAULT_BUDGET


@dataclass
class CreateRetry:
    """One create's attempts within `budget` seconds."""

    budget: float
    path: str = "/sandboxes"
    listener: Optional[OnCreateRetry] = None
    attempt: int = 0
    started: float = field(default_factory=time.monotonic)

    def delay(self, error: PandastackError) -> Optional[float]:
        """Seconds to wait before the next attempt, or None to give up with `error`."""
        elapsed = time.monotonic() - self.started
        wait = self._wait(error, self.budget - elapsed)
        if wait is None:
            return None
        self.attempt += 1
        event = CreateRetryEvent(
            method="POST",
            path=f"/v1{self.path}",
            attempt=self.attempt,
            status_code=error.status or 0,
            error=error.message,
            delay_seconds=wait,
            elapsed_seconds=elapsed,
            retry_after_seconds=error.retry_after,
        )
        _log.info("no sandbox yet (%s); asking again in %.1f s", error.message, wait)
        if self.listener is not None:
            self.listener(event)
        return wait

    def _wait(self, error: PandastackError, left: float) -> Optional[float]:
        floor = _floor(error)
        if floor is None or floor > left:
            return None
        # Spread out, so that many who were refused at once do not come back at once.
        wait = floor + random.uniform(0, min(15.0, 2.0**self.attempt))
        if wait > left:
            return left if left >= max(floor, 1.0) else None
        return wait


def _floor(error: PandastackError) -> Optional[float]:
    """The least wait before asking again, or None where that is of no use."""
    if error.status in (429, 503):
        return error.retry_after
    if error.status == 507:
        return max(0.5, error.retry_after or 0.0)
    return None
