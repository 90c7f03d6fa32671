"""A real server on loopback that answers with fixed bytes: for what a healthy server never does."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from collections import deque
from dataclasses import dataclass
from typing import Any, BinaryIO, Callable, Optional, Union

Reply = Union[bytes, Callable[[socket.socket], None]]


@dataclass
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def answer(status: int = 200, body: Any = None, headers: Optional[dict[str, str]] = None) -> bytes:
    """One HTTP answer; a body that is not bytes is sent as JSON without a charset."""
    content = b"" if body is None else body if isinstance(body, bytes) else dump(body)
    lines = {"Content-Type": "application/json", "Content-Length": str(len(content)), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + content


def dump(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode("utf-8")


def hang_up(connection: socket.socket) -> None:
    """Ends the connection without an answer."""
    connection.shutdown(socket.SHUT_RDWR)


class WireServer:
    """Answers the requests with `replies`, in the order in which they come; without one it stays silent.

    `respond`, where it is set, answers instead by what is asked.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.replies: deque[Reply] = deque()
        self.respond: Optional[Callable[[Request], bytes]] = None
        self.closing = threading.Event()
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                outer._serve(self.rfile, self.connection)  # type: ignore[arg-type]

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def reply(self, *replies: Reply) -> None:
        self.replies.extend(replies)

    def stop_listening(self, connection: Optional[socket.socket] = None) -> None:
        """As a server that is killed: no new connections, and this one ends."""
        self._server.shutdown()
        self._server.socket.close()
        if connection is not None:
            hang_up(connection)

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _serve(self, stream: BinaryIO, connection: socket.socket) -> None:
        while True:
            request = _read(stream)
            if request is None:
                return
            self.requests.append(request)
            if self.respond is not None:
                connection.sendall(self.respond(request))
                continue
            if not self.replies:
                self.closing.wait()
                return
            reply = self.replies.popleft()
            if callable(reply):
                reply(connection)
                return
            connection.sendall(reply)


def _read(stream: BinaryIO) -> Optional[Request]:
    try:
        first = stream.readline().decode("latin-1").split()
        if not first:
            return None
        headers = {}
        while line := stream.readline().strip():
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        body = _discard(stream, int(headers.get("content-length", 0)))
    except ConnectionError:
        return None
    return Request(first[0], first[1], headers, body)


def _discard(stream: BinaryIO, length: int) -> bytes:
    """Keeps a body of ordinary size, and drops a large one piece by piece."""
    if length < 1 << 20:
        return stream.read(length)
    while length > 0:
        length -= len(stream.read(min(length, 1 << 16)))
    return b""
