"""What a session prints, by Python or past it, as stream messages in order.

Python's writes wait in memory for a moment. File descriptors 1 and 2 are pipes
that end in this process, so output of child processes and C code arrives too.
Two rules keep both in order: the first write after a flush reads the pipes
before it is stored, and what is stored goes out before anything can start a
process. What C code and Python print by turns within 20 ms may change places.
"""

from __future__ import annotations

import _thread
import codecs
import contextvars
import ctypes
import fcntl
import functools
import os
import sys
import threading
from contextlib import suppress
from os import read
from select import POLLIN, poll
from threading import current_thread
from typing import Any

from .importhooks import when_imported
from .outbox import Header, Outbox
from .streams import NAMES, OutStream

_FLUSH_SIZE = 8192  # characters kept back at most
_PIPE_SIZE = 1 << 20
_CHUNK = 1 << 16
_END = b""  # in place of what was read: a cell ends here
_PARENT = "_pandastack_parent"  # on Thread objects: the cell that started them

# Their audit events come before a process starts. os.fork has hooks of its own.
_SPAWNS = frozenset(
    ["subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.forkpty"]
)

_libc = ctypes.CDLL(None)

# Tasks keep the context, and so the request, of the code that made them.
_request: contextvars.ContextVar[Header | None] = contextvars.ContextVar(
    "pandastack_request", default=None
)


class _Pipe:
    """The reading side of file descriptor 1 or 2."""

    def __init__(self, target: int) -> None:
        self.name = NAMES[target]
        self.fd, self._writer = os.pipe()
        os.set_blocking(self.fd, False)
        fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
        # The writer stays open: user code that closes fd 1 must not make us spin.
        os.dup2(self._writer, target)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self, parent: Header, items: list[Any]) -> None:
        """Add everything that was written until now, without blocking.

        One pipe's capacity is enough for that, and ends even if a writer does not.
        One call of C reads and adds: nothing is lost if an exception comes.
        """
        with suppress(BlockingIOError):
            for _ in range(_PIPE_SIZE // _CHUNK):
                parts = map(read, (self.fd,), (_CHUNK,))
                items.extend(zip((self,), (parent,), parts, strict=False))

    def decode(self, parts: list[bytes]) -> str:
        """The text of what was read, and at its end of half a character."""
        return self._decoder.decode(b"".join(parts), final=_END in parts)

    def close(self) -> None:
        os.close(self.fd)
        os.close(self._writer)


class Capture:
    """Owns the standard streams of a kernel."""

    def __init__(self, outbox: Outbox, streams: list[OutStream]) -> None:
        self._outbox = outbox
        self._timer = outbox.timer
        self._streams = streams
        self._items = outbox.items
        self._size = 0  # characters since pipes were read
        self.alive = True  # False in a process that user code forked
        self.current: Header = {}  # the request that runs, or ran last
        self.begin({})
        self._pipes = {pipe.fd: pipe for pipe in (_Pipe(1), _Pipe(2))}
        outbox.collect = self._collect
        for stream in streams:
            stream.capture = self

    def start(self) -> None:
        """Start the forwarding thread and the hooks that keep the order."""
        _remember_parents(self)
        sys.addaudithook(self._audit)
        os.register_at_fork(
            before=self._before_fork, after_in_child=self._after_fork_in_child
        )
        # Not a threading.Thread: user code that lists threads sees its own only.
        _thread.start_new_thread(self._forward, ())

    def begin(self, request: Header) -> None:
        """What comes from now on answers request. For the main thread."""
        self.current = request
        _request.set(request)

    def parent(self) -> Header:
        """The request to whose output the calling thread or task contributes."""
        request = _request.get()
        if request is None:  # a thread, which starts with an empty context
            thread = current_thread()
            request = getattr(thread, _PARENT, None) or self.current
        return request

    def write(self, name: str, text: str) -> None:
        """Called twice by each print(), so it calls as little as it can."""
        if not self._size:
            self._outbox.drain()
        self._items.append((name, _request.get() or self.parent(), text))
        self._size = size = len(text) + self._size  # no call between
        if size > _FLUSH_SIZE:
            self._outbox.flush()
        elif not self._timer.armed:
            self._outbox.arm()

    def flush(self) -> None:
        self._outbox.flush()

    def end_cell(self) -> None:
        """Also get what C code keeps in its buffers, and half characters."""
        _libc.fflush(None)
        self._outbox.drain()
        self._items.extend((p, self.current, _END) for p in self._pipes.values())

    def _collect(self) -> None:
        """Queue what is in the pipes. The caller holds the outbox's lock."""
        self._size = 0
        # A poller of its own: a signal handler that prints inside poll() comes here.
        for fd, _ in self._new_poller().poll(0):
            self._pipes[fd].read(self.current, self._outbox.items)

    def _new_poller(self) -> poll:
        poller = poll()
        for fd in self._pipes:
            poller.register(fd, POLLIN)
        return poller

    def _forward(self) -> None:
        """The forwarding thread: sends what nobody else has sent in time."""
        poller = self._new_poller()
        poller.register(self._outbox.timer.fd, POLLIN)
        while self.alive:
            poller.poll()
            with suppress(Exception):  # the thread must live on
                self._outbox.flush()

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event in _SPAWNS and self.alive:
            self._outbox.flush()

    def _before_fork(self) -> None:
        if self.alive:
            _libc.fflush(None)  # else both processes would print it
            self._outbox.flush()

    def _after_fork_in_child(self) -> None:
        if not self.alive:
            return
        self.alive = False
        for stream in self._streams:
            stream.capture = None
        self._outbox.abandon()
        for pipe in self._pipes.values():
            pipe.close()


def _remember_parents(capture: Capture) -> None:
    """Make threads remember the cell that started them, and the threads of an
    executor, which outlive cells, the cell that submitted their work."""
    when_imported("concurrent.futures.thread", functools.partial(_patch_pool, capture))
    start = threading.Thread.start

    def start_with_parent(self: threading.Thread) -> None:
        self.__dict__.setdefault(_PARENT, capture.parent())
        start(self)

    start_with_parent.__wrapped__ = start  # type: ignore[attr-defined]
    threading.Thread.start = start_with_parent  # type: ignore[method-assign]


def _patch_pool(capture: Capture, module: Any) -> None:
    submit = module.ThreadPoolExecutor.submit

    @functools.wraps(submit)
    def submit_with_parent(self: Any, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        parent = capture.parent()

        @functools.wraps(fn, updated=())
        def work(*args: Any, **kwargs: Any) -> Any:
            setattr(current_thread(), _PARENT, parent)
            return fn(*args, **kwargs)

        return submit(self, work, *args, **kwargs)

    module.ThreadPoolExecutor.submit = submit_with_parent
