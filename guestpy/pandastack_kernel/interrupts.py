"""SIGINT: KeyboardInterrupt in the request that runs, nothing otherwise."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Interrupts:
    """Owns the SIGINT handler of a kernel.

    Python may run a signal handler between any two bytecodes, so a
    KeyboardInterrupt could tear a frame in two. Code that must not be torn runs
    between mask() and unmask(); an interrupt that arrives there is raised by
    the unmask() that ends it. Only the main thread is concerned.
    """

    def __init__(self) -> None:
        self._main = threading.get_ident()
        self._masked = 0
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

    def mask(self) -> None:
        if threading.get_ident() == self._main:
            self._masked += 1

    def unmask(self) -> None:
        if threading.get_ident() != self._main:
            return
        self._masked -= 1
        if self._pending and not self._masked:
            self._pending = False
            if self.enabled:
                raise KeyboardInterrupt

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if not self.enabled:
            return
        if self._masked:
            self._pending = True
            return
        raise KeyboardInterrupt
