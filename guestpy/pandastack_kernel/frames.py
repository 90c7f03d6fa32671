"""Frames: a 4-byte big-endian length, then that many bytes of UTF-8 JSON."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from errno import EBADF, ENOTSOCK
from json import loads
from typing import Any

from . import jsonsafe

_LENGTH = struct.Struct(">I")
_CHUNK = 1 << 16

MAX_FRAME = 16 << 20  # body bytes of a frame that a kernel sends
MAX_REQUEST = 64 << 20  # body bytes of a frame that a kernel or zygote accepts


class FrameError(Exception):
    """The peer broke the framing; nothing after it can be read."""


def pack(value: Any) -> bytes:
    """One frame, header included."""
    body = jsonsafe.dumps(value)
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Reads frames off a stream socket, usually one system call each."""

    def __init__(
        self, sock: socket.socket, receive: Callable[[int], bytes] | None = None
    ) -> None:
        self._receive = receive or sock.recv
        self._buffer = bytearray()

    def read(self) -> dict[str, Any] | None:
        """Block for the next frame. None means the peer closed."""
        while (frame := self.take()) is None:
            if not self.fill():
                return None
        return frame

    def fill(self) -> bool:
        """Do one receive. False means the peer closed."""
        try:
            data = self._receive(_CHUNK)
        except OSError as err:
            # User code may have closed our end, or raise from a signal handler.
            if isinstance(err, ConnectionError) or err.errno in (EBADF, ENOTSOCK):
                return False
            raise
        self._buffer += data
        return bool(data)

    def take(self) -> dict[str, Any] | None:
        """Remove the first frame from the buffer; None if it is not all there."""
        buffer = self._buffer
        if len(buffer) < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(buffer)
        if size > MAX_REQUEST:
            raise FrameError(f"frame of {size} bytes, limit {MAX_REQUEST}")
        end = _LENGTH.size + size
        if len(buffer) < end:
            return None
        body = bytes(memoryview(buffer)[_LENGTH.size : end])
        del buffer[:end]
        return _decode(body)


def _decode(body: bytes) -> dict[str, Any]:
    try:
        value = loads(body)
    except ValueError as err:
        raise FrameError(f"frame is not JSON: {err}") from err
    if not isinstance(value, dict):
        raise FrameError("frame is not a JSON object")
    return value
