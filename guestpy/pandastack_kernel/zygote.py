"""The zygote: imports and warms everything once, then forks a kernel per request.

It stays single-threaded, so its forks are whole, and its children share the
memory of all that was imported.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import figures, launch, libraries, paths, tables
from .frames import FrameReader, pack
from .jsonsafe import safe_str
from .shell import ZMQInteractiveShell, create_shell, forget_session

_MAX_FDS = 4  # descriptors taken with one receive

Request = dict[str, Any]
Reply = dict[str, Any]


@dataclass
class Start:
    """What a forked child needs to become a kernel."""

    sock: socket.socket
    request: Request


class Zygote:
    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)
        self._sock = socket.socket(fileno=fd)
        self._reader = FrameReader(self._sock, self._receive)
        self._fds: list[int] = []  # received, not yet claimed by a fork request
        self._kernels: set[int] = set()
        self.streams = launch.attach_streams()
        libraries.install()
        self.shell = create_shell()
        tables.install(self.shell)
        figures.install(self.shell)
        self._wake_reader, self._wake_writer = os.pipe()

    def serve(self) -> Start | None:
        """Answer requests. Returns a Start in each forked child, and None in
        the zygote itself once its control socket closes."""
        self._watch_children()
        poller = select.poll()
        poller.register(self._sock, select.POLLIN)
        poller.register(self._wake_reader, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poller.poll()}
            if self._wake_reader in ready:
                os.read(self._wake_reader, 4096)
                self._reap()
            if self._sock.fileno() not in ready:
                continue
            if not self._reader.fill():
                return None
            while (request := self._reader.take()) is not None:
                start = self._answer(request)
                if start is not None:
                    return start

    def _answer(self, request: Request) -> Start | None:
        """Do one request and reply to it. Returns a Start in a forked child."""
        reply: Reply
        try:
            op = request.get("op")
            if op == "fork":
                start, reply = self._fork(request)
                if start is not None:
                    return start
            elif op == "warm":
                reply = self._warm(request)
            elif op == "ping":
                reply = {"ok": True}
            else:
                reply = {"ok": False, "error": f"unknown op {op!r}"}
        except Exception as err:
            reply = {"ok": False, "error": f"{type(err).__name__}: {safe_str(err)}"}
        self._send(reply)
        return None

    def _fork(self, request: Request) -> tuple[Start | None, Reply]:
        if not self._fds:
            return None, {"ok": False, "error": "fork needs a descriptor"}
        sock = socket.socket(fileno=self._fds.pop(0))
        try:
            pid = os.fork()
        except OSError:
            sock.close()
            raise
        if not pid:
            self._become_child()
            return Start(sock, request), {}
        sock.close()
        self._kernels.add(pid)
        return None, {"ok": True, "pid": pid, "id": request.get("id")}

    def _become_child(self) -> None:
        """Shed what belongs to the zygote."""
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._sock.close()
        for fd in (self._wake_reader, self._wake_writer, *self._fds):
            os.close(fd)

    def _warm(self, request: Request) -> Reply:
        begin = time.monotonic()
        errors: list[str] = []
        with _silence():
            # The trap makes get_ipython a builtin, as during a cell: pandas and
            # others decide on import whether they are in a notebook.
            with self.shell.builtin_trap:
                for name in request.get("imports") or []:
                    with _collect_error(errors, f"import {name}"):
                        __import__(name)
            for cell in request.get("cells") or []:
                error = _run_quietly(self.shell, cell)
                if error:
                    errors.append(error)
            # The first traceback imports and compiles much: seconds of an
            # emulated CPU that would look like a cell that does not stop.
            _run_quietly(self.shell, "1 / 0")
            _close_figures()
            forget_session(self.shell)
        gc.collect()
        gc.freeze()  # so that a child's collector does not touch shared pages
        ms = round((time.monotonic() - begin) * 1e3, 3)
        return {"ok": True, "ms": ms, "errors": errors}

    def _watch_children(self) -> None:
        for fd in (self._wake_reader, self._wake_writer):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid in self._kernels:
                self._kernels.discard(pid)
                self._send(_exit_event(pid, status))

    def _receive(self, size: int) -> bytes:
        data, fds, _, _ = socket.recv_fds(self._sock, size, _MAX_FDS)
        for fd in fds:
            os.set_inheritable(fd, False)
        self._fds.extend(fds)
        return data

    def _send(self, message: Reply) -> None:
        with contextlib.suppress(ConnectionError):
            self._sock.sendall(pack(message))


def _exit_event(pid: int, status: int) -> Reply:
    killed = os.WIFSIGNALED(status)
    return {
        "event": "exit",
        "pid": pid,
        "code": None if killed else os.WEXITSTATUS(status),
        "signal": os.WTERMSIG(status) if killed else None,
    }


def _run_quietly(shell: ZMQInteractiveShell, cell: str) -> str:
    """Run a warm-up cell as a kernel would. Returns what it failed with, or ''."""
    try:
        result = shell.run_cell(cell, store_history=True)
        err = result.error_before_exec or result.error_in_exec
    except BaseException as raised:
        err = raised
    return f"{type(err).__name__}: {safe_str(err)}" if err is not None else ""


@contextlib.contextmanager
def _collect_error(errors: list[str], what: str) -> Iterator[None]:
    try:
        yield
    except BaseException as err:
        errors.append(f"{what}: {type(err).__name__}: {safe_str(err)}")


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Send file descriptors 1 and 2 to /dev/null for a while."""
    kept = [os.dup(1), os.dup(2)]
    null = os.open(os.devnull, os.O_RDWR)
    try:
        for fd in (1, 2):
            os.dup2(null, fd)
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for fd, old in zip((1, 2), kept, strict=True):
            os.dup2(old, fd)
            os.close(old)
        os.close(null)


def _close_figures() -> None:
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")


def main(fd: int) -> None:
    """Run a zygote on file descriptor fd until that closes."""
    paths.add_working_directory()
    zygote = Zygote(fd)
    start = zygote.serve()
    if start is not None:
        request = start.request
        launch.run_kernel(
            start.sock,
            zygote.shell,
            zygote.streams,
            request.get("cwd") or "",
            request.get("env") or {},
        )
