"""SIGINT: KeyboardInterrupt in the request that runs, nothing otherwise."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Interrupts:
    """Owns the SIGINT handler of a kernel."""

    def __init__(self) -> None:
        # While the main thread holds it, an interrupt waits. It is taken by `with`,
        # which releases it whatever a signal handler of the user's raises inside.
        self.held = threading.RLock()
        self._pending = False
        self.enabled = False  # True while user code runs

    def install(self) -> None:
        """Make this the handler, also after user code replaced it."""
        if signal.getsignal(signal.SIGINT) != self._handle:
            signal.signal(signal.SIGINT, self._handle)

    @contextlib.contextmanager
    def allowed(self) -> Iterator[None]:
        """User code runs inside; an interrupt that came too early is forgotten."""
        self._pending = False
        self.enabled = True
        try:
            yield
        finally:
            self.enabled = False

    def deliver(self) -> None:
        """Raise the interrupt that came meanwhile. For the main thread."""
        if self._pending:
            self._pending = False
            if self.enabled:
                raise KeyboardInterrupt

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if not self.enabled:
            return
        if self.held._is_owned():  # type: ignore[attr-defined]
            self._pending = True
            return
        raise KeyboardInterrupt
