"""Outgoing messages: ordered, few system calls, none torn by an interrupt."""

from __future__ import annotations

import base64
import itertools
import os
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

from . import limits
from .frames import MAX_FRAME, pack
from .interrupts import Interrupts
from .timer import Timer

# At the latest this long after a message was posted or text was printed it is
# on its way to the client.
MAX_DELAY = 0.02

_MAX_QUEUED = 1 << 18  # bytes of frames kept back before a send

Header = dict[str, Any]


def _nothing() -> None:
    pass


class Outbox:
    """Queues frames and sends them together.

    post() may be called from any thread, and again from a finaliser that runs
    inside post(). Frames leave in the order of posting; before each of them
    goes what was printed earlier (collect).
    """

    def __init__(self, sock: socket.socket, interrupts: Interrupts) -> None:
        self._sock = sock
        self._interrupts = interrupts
        self._lock = threading.RLock()  # guards everything below
        self._frames: list[bytes] = []
        self._queued = 0
        self._sending = False
        self._closed = False
        self._ids = itertools.count(1)
        self._prefix = os.urandom(4).hex()
        self.timer = Timer(MAX_DELAY)
        # Adds what was printed, by append(). Called with the lock held.
        self.collect: Callable[[], None] = _nothing

    def post(
        self,
        msg_type: str,
        content: dict[str, Any],
        parent: Header,
        metadata: dict[str, Any] | None = None,
        buffers: Sequence[Any] | None = None,
    ) -> None:
        """Queue one message; flush() or the timer sends it."""
        frame = self._frame(msg_type, content, parent, metadata, buffers)
        self.enter()
        try:
            self.collect()
            self.append(frame)
        finally:
            self.leave()

    def post_stream(self, name: str, text: str, parent: Header) -> None:
        """Queue a stream message. The caller holds the lock."""
        content = {"name": name, "text": text}
        self.append(self._frame("stream", content, parent, None, None))

    def flush(self) -> None:
        """Send everything that was posted or printed."""
        self.enter()
        try:
            self.collect()
            self._send()
        finally:
            self.leave()

    def enter(self) -> None:
        """Take the lock with interrupts masked."""
        self._interrupts.mask()
        self._lock.acquire()

    def leave(self) -> None:
        """May raise the KeyboardInterrupt that came since enter()."""
        self._lock.release()
        self._interrupts.unmask()

    def append(self, frame: bytes) -> None:
        """Queue a frame. The caller holds the lock."""
        self._frames.append(frame)
        self._queued += len(frame)
        if self._queued > _MAX_QUEUED:
            self._send()
        else:
            self.timer.arm()

    def abandon(self) -> None:
        """In a forked child: the parent's socket is not ours to write to."""
        self._lock = threading.RLock()
        self._closed = True
        self._frames = []
        self._sock.close()
        self.timer.close()

    def _send(self) -> None:
        if self._sending:  # called by a finaliser inside sendall
            return
        self._sending = True
        try:
            while self._frames:
                frames, self._frames = self._frames, []
                self._queued = 0
                if not self._closed:
                    self._sock.sendall(b"".join(frames))
        except OSError:
            self._closed = True  # the agent is gone; the main loop sees EOF
        finally:
            self._sending = False
        self.timer.disarm()

    def _frame(
        self,
        msg_type: str,
        content: dict[str, Any],
        parent: Header,
        metadata: dict[str, Any] | None,
        buffers: Sequence[Any] | None,
    ) -> bytes:
        message: dict[str, Any] = {
            "header": {
                "msg_id": f"{self._prefix}-{next(self._ids)}",
                "msg_type": msg_type,
            },
            "parent_header": parent,
            "metadata": metadata or {},
            "content": content,
        }
        if buffers:
            message["buffers"] = [base64.b64encode(b).decode("ascii") for b in buffers]
        if not limits.certainly_too_large(content):
            frame = pack(message)
            if len(frame) <= MAX_FRAME:
                return frame
        message["content"] = limits.fit(content)
        if message.pop("buffers", None):
            left_out = {"buffers": sum(memoryview(b).nbytes for b in buffers or ())}
            message["metadata"] = {
                **message["metadata"],
                "pandastack": {"truncated": left_out},
            }
        return pack(message)
