"""Outgoing messages: ordered, few system calls, none torn by an exception."""

from __future__ import annotations

import base64
import itertools
import operator
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from . import limits
from .frames import MAX_FRAME, pack
from .timer import Timer

# At the latest this long after a message was posted or text was printed it is
# on its way to the client.
MAX_DELAY = 0.02

_MAX_QUEUED = 1 << 18  # bytes of frames kept back before a send
_MAX_TEXT = 1 << 20  # characters of one stream message
_SOURCE = operator.itemgetter(0, 1)

Header = dict[str, Any]


def _nothing() -> None:
    pass


class _Batch:
    """Frames on their way. What the socket took is counted by the call that sends,
    so whoever goes on after an exception knows where."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._sent: list[int] = []

    def send(self, sock: socket.socket) -> None:
        while (done := sum(self._sent)) < len(self._data):
            self._sent.extend(map(sock.send, (memoryview(self._data)[done:],)))


class Outbox:
    """Queues frames and what was printed, and sends them together, in order.

    Any thread may call it, and a finaliser or signal handler inside such a call.
    Handlers of signals, and exceptions that one thread raises in another, come
    between any two calls of a Python function and may end it there. So

    - the lock is taken by `with` alone, which leaves no gap before its body;
    - everything that is not sent yet is in one list, and each step from a text to
      a frame to what the socket has taken is one call of C: it is done or it is not.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        # Only the holder takes anything out; all append.
        self._lock = threading.RLock()
        # (source, parent, data), see _packed; and first the batch on its way.
        self.items: list[Any] = []
        self._queued = 0
        self._sending = False
        self._closed = False
        self._ids = itertools.count(1)
        self._prefix = os.urandom(4).hex()
        self.timer = Timer(MAX_DELAY)
        # Adds what came through pipes. Called with the lock held.
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
        self.drain()
        self.items.append((None, None, frame))
        self._queued += len(frame)
        if self._queued > _MAX_QUEUED:
            self.flush()
        else:
            self.arm()

    def drain(self) -> None:
        """Queue what came through pipes."""
        with self._lock:
            self.collect()

    def arm(self) -> None:
        """Have sent soon what was queued."""
        if not self.timer.armed:
            with self._lock:
                self.timer.arm()

    def flush(self) -> None:
        """Send everything that was posted or printed."""
        with self._lock:
            self.collect()
            if self._sending:  # called inside _send, which goes on until all is sent
                return
            self._sending = True
            try:
                self._send()
            finally:
                self._sending = False

    def abandon(self) -> None:
        """In a forked child: the parent's socket is not ours to write to."""
        self._lock = threading.RLock()
        self._sending = False
        self._closed = True
        self.items.clear()
        self._sock.close()
        self.timer.close()

    def _send(self) -> None:
        self.timer.disarm()  # first: who queues anything from now on arms it again
        self._queued = 0
        items = self.items
        while items:
            if not isinstance(items[0], _Batch):
                waiting = items[:]
                items[: len(waiting)] = [_Batch(self._packed(waiting))]
            try:
                if not self._closed:
                    items[0].send(self._sock)
            except ConnectionError:  # an OSError may be a handler's TimeoutError
                self._closed = True  # the agent is gone; the main loop sees EOF
            del items[0]

    def _packed(self, waiting: list[Any]) -> bytes:
        """The frames of items: what was printed in one go, or through one pipe
        (then the source is the pipe), is one message; without a source it is a frame.
        """
        frames: list[bytes] = []
        for (source, parent), run in itertools.groupby(waiting, _SOURCE):
            data = [item[2] for item in run]
            if source is None:
                frames += data
            elif isinstance(source, str):
                frames += self._stream(source, parent, "".join(data))
            else:
                frames += self._stream(source.name, parent, source.decode(data))
        return b"".join(frames)

    def _stream(self, name: str, parent: Header, text: str) -> Iterator[bytes]:
        for start in range(0, len(text), _MAX_TEXT):
            content = {"name": name, "text": text[start : start + _MAX_TEXT]}
            yield self._frame("stream", content, parent, None, None)

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
