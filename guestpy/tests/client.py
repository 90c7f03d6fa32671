"""A small client of the kernel host, over real processes and sockets."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PACKAGE_ROOT = Path(__file__).resolve().parent.parent
DEADLINE = 60.0  # seconds; generous, nothing waits for it when all is well

Message = dict[str, Any]


class Frames:
    """Frames over a socket, with a deadline on every read."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buffer = b""

    def send(self, value: Any, fds: list[int] | None = None) -> None:
        body = json.dumps(value).encode()
        data = struct.pack(">I", len(body)) + body
        if fds:
            sent = socket.send_fds(self.sock, [data], fds)
            data = data[sent:]
        self.sock.sendall(data)

    def receive(self, timeout: float = DEADLINE) -> Message | None:
        """The next frame; None at end of file; TimeoutError at the deadline."""
        end = time.monotonic() + timeout
        while True:
            if len(self._buffer) >= 4:
                (size,) = struct.unpack_from(">I", self._buffer)
                if len(self._buffer) >= 4 + size:
                    body = self._buffer[4 : 4 + size]
                    self._buffer = self._buffer[4 + size :]
                    return json.loads(body, parse_constant=_refuse)
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.sock], [], [], left)[0]:
                raise TimeoutError(f"no frame within {timeout} s")
            data = self.sock.recv(1 << 20)
            if not data:
                return None
            self._buffer += data


def _refuse(token: str) -> Any:
    raise ValueError(f"not strict JSON: {token}")


class Died(Exception):
    """The kernel's socket closed."""


class Cell:
    """What came back for one cell."""

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages
        self.reply = next(
            m["content"] for m in messages if m["header"]["msg_type"] == "execute_reply"
        )

    def of(self, *types: str) -> list[Message]:
        return [m["content"] for m in self.messages if m["header"]["msg_type"] in types]

    @property
    def types(self) -> list[str]:
        return [m["header"]["msg_type"] for m in self.messages]

    @property
    def status(self) -> str:
        return self.reply["status"]

    def stream(self, name: str) -> str:
        return "".join(m["text"] for m in self.of("stream") if m["name"] == name)

    @property
    def stdout(self) -> str:
        return self.stream("stdout")

    @property
    def stderr(self) -> str:
        return self.stream("stderr")

    @property
    def bundles(self) -> list[dict[str, Any]]:
        return [m["data"] for m in self.of("display_data", "execute_result")]

    @property
    def text(self) -> str | None:
        results = self.of("execute_result")
        return results[-1]["data"].get("text/plain") if results else None

    @property
    def pngs(self) -> list[bytes]:
        return [
            base64.b64decode(b["image/png"]) for b in self.bundles if "image/png" in b
        ]

    @property
    def error(self) -> dict[str, Any] | None:
        errors = self.of("error")
        return errors[0] if errors else None


class KernelClient:
    def __init__(self, sock: socket.socket, pid: int) -> None:
        self.frames = Frames(sock)
        self.pid = pid
        self._ids = itertools.count(1)
        self.ready = self.frames.receive()

    def send(self, msg_type: str, content: dict[str, Any], **extra: Any) -> str:
        msg_id = f"c{next(self._ids)}"
        header = {"msg_id": msg_id, "msg_type": msg_type}
        self.frames.send(
            {
                "header": header,
                "parent_header": {},
                "metadata": {},
                "content": content,
                **extra,
            }
        )
        return msg_id

    def receive(self, timeout: float = DEADLINE) -> Message:
        message = self.frames.receive(timeout)
        if message is None:
            raise Died
        return message

    def until_idle(self, msg_id: str, timeout: float = DEADLINE) -> list[Message]:
        messages = []
        while True:
            message = self.receive(timeout)
            messages.append(message)
            if (
                message["header"]["msg_type"] == "status"
                and message["content"]["execution_state"] == "idle"
                and message["parent_header"].get("msg_id") == msg_id
            ):
                return messages

    def start(self, code: str, **options: Any) -> str:
        content = {"code": code, "stop_on_error": False, **options}
        return self.send("execute_request", content)

    def run(self, code: str, timeout: float = DEADLINE, **options: Any) -> Cell:
        return Cell(self.until_idle(self.start(code, **options), timeout))

    def ask(self, msg_type: str, content: dict[str, Any]) -> dict[str, Any]:
        messages = self.until_idle(self.send(msg_type, content))
        reply = msg_type.removesuffix("_request") + "_reply"
        return next(m["content"] for m in messages if m["header"]["msg_type"] == reply)

    def wait_for(self, msg_type: str, timeout: float = DEADLINE) -> Message:
        while True:
            message = self.receive(timeout)
            if message["header"]["msg_type"] == msg_type:
                return message

    def interrupt(self) -> None:
        os.kill(self.pid, signal.SIGINT)

    def close(self) -> None:
        self.frames.sock.close()


class Zygote:
    """A zygote process; close() ends it and its kernels."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        env = {**os.environ, "PYTHONPATH": str(PACKAGE_ROOT)}
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "pandastack_kernel",
                "--zygote-fd",
                str(theirs.fileno()),
            ],
            pass_fds=[theirs.fileno()],
            env=env,
        )
        theirs.close()
        self.frames = Frames(ours)
        self.events: list[Message] = []
        self._kernels: list[KernelClient] = []

    def ask(self, request: dict[str, Any], fds: list[int] | None = None) -> Message:
        self.frames.send(request, fds)
        while True:
            message = self.frames.receive()
            assert message is not None, "the zygote ended"
            if "event" not in message:
                return message
            self.events.append(message)

    def kernel(self, cwd: str, env: dict[str, str] | None = None) -> KernelClient:
        ours, theirs = socket.socketpair()
        request = {"op": "fork", "id": "k", "cwd": cwd, "env": env or {}}
        answer = self.ask(request, [theirs.fileno()])
        theirs.close()
        assert answer["ok"], answer
        client = KernelClient(ours, answer["pid"])
        self._kernels.append(client)
        return client

    def wait_exit(self, pid: int) -> Message:
        while True:
            for event in self.events:
                if event["pid"] == pid:
                    return event
            message = self.frames.receive()
            assert message is not None, "the zygote ended"
            self.events.append(message)

    def close(self) -> None:
        """End the kernels, by force where a failed test left one busy."""
        for kernel in self._kernels:
            kernel.close()
        self.ask({"op": "ping"})  # collects the exits so far
        ended = {event["pid"] for event in self.events}
        for kernel in self._kernels:
            if kernel.pid not in ended:
                with contextlib.suppress(ProcessLookupError):  # just ended
                    os.kill(kernel.pid, signal.SIGKILL)
                self.wait_exit(kernel.pid)
        self.frames.sock.close()
        try:
            self.process.wait(DEADLINE)
        finally:
            self.process.kill()
            self.process.wait()
