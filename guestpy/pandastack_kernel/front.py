"""A kernel behind Jupyter's five ZeroMQ sockets, for any Jupyter client.

The kernel is a forked child that talks frames, as it does to the guest agent;
this process passes them on and never runs user code, so its heartbeat says
whether the kernel lives, not whether it is busy. Only this module needs pyzmq.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from .frames import MAX_REQUEST, FrameError, FrameReader, pack
from .wire import Message, Wire, WireError

_PR_SET_PDEATHSIG = 1
_GRACE = 2.0  # seconds a kernel has to end after a shutdown_request
_PARENT_CHECK = 1000  # milliseconds between looks whether our parent lives
_REMEMBERED = 4096  # requests whose headers are kept for late messages
_MAX_QUEUED = 10_000  # messages kept for a slow reader of iopub


@dataclass
class Request:
    """A client's request: where its reply goes, and whose child it is."""

    socket: Any
    identities: list[bytes]
    header: Message
    open: bool = True


class Front:
    def __init__(self, connection: Message, kernel: socket.socket, pid: int) -> None:
        import zmq

        self._zmq = zmq
        self._wire = Wire.of(connection)
        self._kernel = kernel
        self._pid = pid
        self._reader = FrameReader(kernel)
        self._to_kernel = bytearray()  # a busy kernel does not read
        self._info: Message = {}  # its kernel_info, known from `ready`
        self._requests: dict[str, Request] = {}
        self._leaving = False
        context = zmq.Context.instance()
        bind = _binder(context, connection)
        self._shell = bind(zmq.ROUTER, "shell")
        self._control = bind(zmq.ROUTER, "control")
        self._stdin = bind(zmq.ROUTER, "stdin")
        self._heartbeat = bind(zmq.REP, "hb")
        self._iopub = bind(zmq.XPUB, "iopub")
        kernel.setblocking(False)
        self._handlers: dict[Any, Callable[[], None]] = {
            self._shell: lambda: self._from_client(self._shell, self._forward),
            self._control: lambda: self._from_client(self._control, self._at_control),
            self._stdin: lambda: self._from_client(self._stdin, self._forward),
            self._heartbeat: self._echo,
            self._iopub: self._welcome,
        }

    def serve(self) -> int:
        """Pass messages on until the kernel ends; its wait status."""
        self._publish("status", {"execution_state": "starting"})
        poller = self._zmq.Poller()
        for one in self._handlers:
            poller.register(one, self._zmq.POLLIN)
        while not self._leaving:
            writes = self._zmq.POLLOUT if self._to_kernel else 0
            poller.register(self._kernel.fileno(), self._zmq.POLLIN | writes)
            ready = dict(poller.poll(_PARENT_CHECK))
            for one in ready.keys() & self._handlers.keys():
                self._handlers[one]()
            if self._kernel.fileno() in ready and not self._serve_kernel():
                break
            if _is_orphan():
                break
        return self._end()

    def _serve_kernel(self) -> bool:
        """False once the kernel's socket closed."""
        with contextlib.suppress(BlockingIOError, ConnectionError):
            if self._to_kernel:
                del self._to_kernel[: self._kernel.send(self._to_kernel)]
        try:
            if not self._reader.fill():
                return False
        except BlockingIOError:
            return True
        while (message := self._reader.take()) is not None:
            self._from_kernel(message)
        return True

    def _from_client(
        self, one: Any, handle: Callable[[Request, Message], None]
    ) -> None:
        while True:
            try:
                frames = one.recv_multipart(self._zmq.NOBLOCK)
            except self._zmq.Again:
                return
            with contextlib.suppress(WireError):  # a stranger's
                identities, message = self._wire.unpack(frames)
                request = Request(one, identities, message["header"])
                if one is not self._stdin:
                    self._remember(request)
                handle(request, message)

    def _remember(self, request: Request) -> None:
        self._requests[request.header["msg_id"]] = request
        if len(self._requests) > _REMEMBERED:
            answered = (k for k, r in self._requests.items() if not r.open)
            self._requests.pop(next(answered, ""), None)

    def _forward(self, request: Request, message: Message) -> None:
        header = {k: request.header[k] for k in ("msg_id", "msg_type")}
        frame = pack({**message, "header": header, "parent_header": {}})
        if len(frame) <= MAX_REQUEST:
            self._to_kernel += frame
            return
        text = f"the message has {len(frame)} bytes, limit {MAX_REQUEST}"
        error = {"ename": "MessageTooLarge", "evalue": text, "traceback": []}
        self._answer(request, {"status": "error", **error})

    def _at_control(self, request: Request, message: Message) -> None:
        """What must be answered while a cell runs."""
        msg_type = request.header["msg_type"]
        if msg_type == "interrupt_request":
            self._interrupt()
            self._answer(request, {"status": "ok"})
        elif msg_type == "kernel_info_request" and self._info:
            self._answer(request, self._info)
        elif msg_type == "shutdown_request":
            restart = bool(message["content"].get("restart", False))
            self._answer(request, {"status": "ok", "restart": restart})
            self._leaving = True
        else:
            self._forward(request, message)

    def _answer(self, request: Request, content: Message) -> None:
        """Reply without the kernel."""
        request.open = False
        name = request.header["msg_type"].removesuffix("_request") + "_reply"
        message = self._message(name, content, request.header)
        self._publish("status", {"execution_state": "busy"}, request.header)
        request.socket.send_multipart(self._wire.pack(request.identities, message))
        self._publish("status", {"execution_state": "idle"}, request.header)

    def _from_kernel(self, message: Message) -> None:
        name = message["header"]["msg_type"]
        if name == "ready":
            self._info = {k: v for k, v in message["content"].items() if k != "pid"}
            return
        parent = message["parent_header"]
        request = self._requests.get(parent.get("msg_id", ""))
        message["header"] = {**self._wire.header(name), **message["header"]}
        if request is None:
            self._iopub.send_multipart(self._wire.pack([name.encode()], message))
            return
        message["parent_header"] = request.header
        if message["content"].get("execution_state") == "idle":
            request.open = False
        if name.endswith("_reply"):
            to, identities = request.socket, request.identities
        elif name == "input_request":
            to, identities = self._stdin, request.identities
        else:
            to, identities = self._iopub, [name.encode()]
        to.send_multipart(self._wire.pack(identities, message))

    def _publish(
        self, name: str, content: Message, parent: Message | None = None
    ) -> None:
        message = self._message(name, content, parent or {})
        self._iopub.send_multipart(self._wire.pack([name.encode()], message))

    def _message(self, name: str, content: Message, parent: Message) -> Message:
        return {
            "header": self._wire.header(name),
            "parent_header": parent,
            "metadata": {},
            "content": content,
        }

    def _welcome(self) -> None:
        """Tell a new reader of iopub that it is heard."""
        event = self._iopub.recv()
        if event[:1] == b"\x01":
            content = {"subscription": event[1:].decode("utf-8", "replace")}
            message = self._message("iopub_welcome", content, {})
            self._iopub.send_multipart(self._wire.pack([event[1:]], message))

    def _echo(self) -> None:
        self._heartbeat.send_multipart(self._heartbeat.recv_multipart())

    def _interrupt(self) -> None:
        """SIGINT, to child processes of a cell too where the group is ours."""
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGINT)
        else:
            os.kill(self._pid, signal.SIGINT)

    def _end(self) -> int:
        """End the kernel, by force after a grace; its wait status."""
        self._kernel.close()  # which ends an idle one
        self._interrupt()
        end = os.pidfd_open(self._pid)
        if not select.select([end], [], [], _GRACE)[0]:
            os.kill(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        self._zmq.Context.instance().destroy(linger=1000)
        return status


def _binder(context: Any, connection: Message) -> Callable[[int, str], Any]:
    ipc = connection.get("transport", "tcp") == "ipc"
    address = f"{connection.get('transport', 'tcp')}://{connection['ip']}"

    def bind(kind: int, name: str) -> Any:
        port = connection[f"{name}_port"]
        one = context.socket(kind)
        one.linger = 1000
        one.sndhwm = _MAX_QUEUED
        one.bind(f"{address}{'-' if ipc else ':'}{port}")
        return one

    return bind


def _is_orphan() -> bool:
    """Whether the client that started us is gone, where it said who it is."""
    return bool(os.environ.get("JPY_PARENT_PID")) and os.getppid() == 1


def _leave_like(status: int) -> None:
    """End this process as the kernel ended."""
    if os.WIFSIGNALED(status):
        with contextlib.suppress(OSError):  # SIGKILL, which needs no help
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


def _become_kernel(sock: socket.socket) -> NoReturn:
    """Be the kernel, which ends with its front."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    from . import launch, libraries, paths  # IPython is the child's alone
    from .shell import create_shell

    paths.add_working_directory()
    streams = launch.attach_streams()
    libraries.install()
    shell = create_shell()
    shell.pages_as_payload = True
    launch.run_kernel(sock, shell, streams)


def main(connection_file: str) -> None:
    """Serve a connection file until its kernel ends."""
    with open(connection_file, encoding="utf-8") as file:
        connection = json.load(file)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if not pid:
        ours.close()
        _become_kernel(theirs)
    theirs.close()
    try:
        status = Front(connection, ours, pid).serve()
    except (FrameError, OSError):
        os.kill(pid, signal.SIGKILL)
        raise
    _leave_like(status)
