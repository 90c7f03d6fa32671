"""The kernel: takes requests off its socket and runs cells on the main thread."""

from __future__ import annotations

import atexit
import gc
import os
import platform
import socket
import sys
import threading
import warnings
from base64 import b64decode
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from os import _exit, getpid, write
from select import select
from traceback import format_exc
from typing import Any, NoReturn

from . import __version__, comms, introspection, jsonsafe, processes
from .capture import Capture
from .execution import Executor
from .frames import FrameError, FrameReader
from .interrupts import Interrupts
from .loops import CellLoop
from .outbox import Outbox
from .seeding import Seeding
from .shell import ZMQInteractiveShell, forget_session, print_instead
from .stdin import Stdin, nobody
from .streams import OutStream

_GIVE_UP = 0.1  # seconds between looks whether an answer is still wanted

Message = dict[str, Any]
Content = dict[str, Any]


class Kernel:
    """One session. Built in the process that runs it, after the fork."""

    def __init__(
        self, sock: socket.socket, shell: ZMQInteractiveShell, streams: list[OutStream]
    ) -> None:
        self.shell = shell
        self._sock = sock
        self._reader = FrameReader(sock)
        self._waiting: deque[Message] = deque()
        self._interrupts = Interrupts()
        self._outbox = Outbox(sock)
        self._capture = Capture(self._outbox, streams)
        self._loop = CellLoop()
        self._asking: Message | None = None  # the cell that may ask for input
        self._reading = threading.Lock()  # who asks has it
        self._stdin = Stdin(self._ask, self._may_ask)
        self._seeding = Seeding()
        self._log = os.dup(2)
        self._running = True
        self.comm_manager = comms.install(self.post)
        self._executor = Executor(
            shell, self._interrupts, self._loop, self._capture, self.post
        )
        self._handlers = {
            "execute_request": self._execute,
            "kernel_info_request": lambda _: kernel_info(),
            "complete_request": self._question(
                introspection.complete, introspection.no_completion
            ),
            "inspect_request": self._question(
                introspection.inspect, introspection.no_inspection
            ),
            "is_complete_request": self._question(
                introspection.is_complete, introspection.unknown_whether_complete
            ),
            "history_request": lambda c: introspection.history(shell, c),
            "comm_info_request": lambda c: comms.info(
                self.comm_manager, c.get("target_name")
            ),
            "control_request": self._control,
            "shutdown_request": self._shutdown,
        }

    def install(self) -> None:
        """Take over the process: signals, streams, hooks."""
        self._interrupts.install()
        self._capture.start()
        self._loop.install()
        self._stdin.install()
        self._seeding.install()
        self._seeding.reseed()
        self.shell.post = self.post
        self.shell.kernel = self
        self.shell.stdin = self._stdin
        self.shell.loop_runner = self._loop
        self.shell.loop_runner_map["asyncio"] = (self._loop, True)
        self.shell.cancelled = lambda: self._loop.interrupted
        self.shell.forked = lambda: not self._capture.alive
        _flush_before_exit(self._outbox)
        # The other thread is ours, and ready for a fork.
        warnings.filterwarnings("ignore", message=r"This process .* is multi-threaded")

    def run(self) -> NoReturn:
        """Serve requests until shutdown_request or the agent's end closes."""
        self.post("ready", {**kernel_info(), "pid": getpid()})
        self._outbox.flush()
        while self._running and self._capture.alive:
            # A signal handler that raised may have left it on.
            self._interrupts.enabled = False
            try:
                message = self._next()
            except FrameError as err:
                self._give_up(str(err))
            except BaseException:  # a callback's or a signal handler's
                self.log(format_exc())
                continue
            if message is None:
                break
            try:
                self._dispatch(message)
            except BaseException:  # its sender would wait for ever
                self._give_up(format_exc())
        self._finish()

    def post(self, msg_type: str, content: Content, **extra: Any) -> None:
        """Queue a message in answer to the request that runs."""
        if self._capture.alive:
            self._outbox.post(msg_type, content, self._capture.parent(), **extra)
        else:
            print_instead(msg_type, content)

    def get_parent(self, *_: Any) -> Message:
        """The request that runs, as ipykernel shows it to ipywidgets."""
        return {"header": dict(self._capture.parent())}

    def log(self, text: str) -> None:
        """A line for the machine's console, not for the user."""
        with suppress(OSError):
            write(self._log, f"kernel {getpid()}: {text}\n".encode())

    def _next(self) -> Message | None:
        while not self._waiting:
            message = self._reader.take()
            if message is not None:
                self._waiting.append(message)
                continue
            self._between_cells(self._loop.wait_readable, self._sock.fileno())
            if not self._reader.fill():
                return None
        self._between_cells(self._loop.take_turn)  # may raise, so it comes first
        return self._waiting.popleft()

    def _between_cells(self, run: Callable[..., None], *args: Any) -> None:
        """Requests are taken also where user code broke what the loop needs."""
        try:
            run(*args)
        except Exception:
            self.log(format_exc())

    def _dispatch(self, message: Message) -> None:
        header = message["header"]
        msg_type = header["msg_type"]
        self._capture.begin({"msg_id": header["msg_id"]})
        if msg_type == "input_reply":  # nobody waits for it any more
            return
        lean = bool((message.get("content") or {}).get("lean"))
        if not lean:
            self.post("status", {"execution_state": "busy"})
        if msg_type in ("comm_open", "comm_msg", "comm_close"):
            self._comm(message)
        else:
            self._answer(msg_type, message.get("content") or {})
        if not lean:
            self.post("status", {"execution_state": "idle"})
        self._outbox.flush()

    def _answer(self, msg_type: str, content: Content) -> None:
        reply_type = msg_type.removesuffix("_request") + "_reply"
        try:
            if msg_type not in self._handlers:
                raise LookupError(f"unknown message type {msg_type!r}")
            self.post(reply_type, self._handlers[msg_type](content))
        except BaseException as err:
            self.log(format_exc())
            self.post(reply_type, _failure(err))

    def _comm(self, message: Message) -> None:
        """Run a widget's callbacks."""
        try:
            with self._interrupts.allowed(), self._loop.current():
                comms.handle(self.comm_manager, message)
        except BaseException:
            self.shell.showtraceback()

    def _question(
        self,
        answer: Callable[[ZMQInteractiveShell, Content], Content],
        nothing: Callable[[Content], Content],
    ) -> Any:
        """A handler for questions whose answer may run user code."""

        def handle(content: Content) -> Content:
            try:
                with self._interrupts.allowed():
                    return answer(self.shell, content)
            except BaseException:  # also SystemExit: it is a property's, not a cell's
                self.log(format_exc())
                return nothing(content)

        return handle

    def _execute(self, content: Content) -> Content:
        self._interrupts.install()
        self._asking = self._capture.current if content.get("allow_stdin") else None
        try:
            reply = self._executor.execute(content)
        finally:
            self._asking = None
            with self._reading:  # a thread that asks gives up
                pass
        if reply["status"] == "error" and content.get("stop_on_error", True):
            self._abort_waiting()
        return reply

    def _abort_waiting(self) -> None:
        """Answer the cells that already wait: an earlier one failed."""
        while select([self._sock], [], [], 0)[0] and self._reader.fill():
            pass
        while (message := self._reader.take()) is not None:
            self._waiting.append(message)
        kept = [m for m in self._waiting if not _is_cell(m)]
        aborted = [m for m in self._waiting if _is_cell(m)]
        self._waiting = deque(kept)
        for message in aborted:
            parent = {"msg_id": message["header"]["msg_id"]}
            count = self.shell.execution_count
            content = {"status": "aborted", "execution_count": count}
            for msg_type, body in (
                ("status", {"execution_state": "busy"}),
                ("execute_reply", content),
                ("status", {"execution_state": "idle"}),
            ):
                self._outbox.post(msg_type, body, parent)

    def _may_ask(self) -> bool:
        """Threads and tasks may ask while their cell runs."""
        return self._asking is not None and self._asking is self._capture.parent()

    def _ask(self, prompt: str, password: bool) -> str:
        """Ask the client for a line. SIGINT ends the wait."""
        with self._reading:
            self.post("input_request", {"prompt": prompt, "password": password})
            self._outbox.flush()
            while True:
                message = self._reader.take()
                if message is None:
                    self._receive()
                elif message["header"]["msg_type"] == "input_reply":
                    return _line(message.get("content") or {})
                else:
                    self._waiting.append(message)

    def _receive(self) -> None:
        # Here an interrupt tears nothing. A thread may outlive its cell.
        while not select([self._sock], [], [], _GIVE_UP)[0]:
            if not self._may_ask():
                raise nobody("input()")
        with self._interrupts.held:
            is_open = self._reader.fill()
        if threading.current_thread() is threading.main_thread():
            self._interrupts.deliver()
        if not is_open:
            raise EOFError("the session ends")

    def _control(self, content: Content) -> Content:
        op = content.get("op")
        if op == "reseed":
            seed = b64decode(content.get("seed") or "")
            return {"status": "ok", "reseeded": self._seeding.reseed(seed)}
        if op == "configure":  # a kernel that waited is now somebody's
            os.environ.update(content.get("env") or {})
            if cwd := content.get("cwd"):
                processes.enter(cwd)
            return {"status": "ok"}
        if op == "forget":  # what a rehearsal left: the next cell is the first
            forget_session(self.shell)
            gc.freeze()  # the collector does not touch again what is there now
            return {"status": "ok"}
        raise LookupError(f"unknown control op {op!r}")

    def _shutdown(self, content: Content) -> Content:
        self._running = False
        return {"status": "ok", "restart": bool(content.get("restart", False))}

    def _give_up(self, reason: str) -> NoReturn:
        """A request cannot be answered; the end of the kernel says so."""
        self.log(f"giving up: {reason}")
        self._finish(1)

    def _finish(self, status: int = 0) -> NoReturn:
        """Let user code clean up, then leave without the zygote's own exit."""
        with suppress(BaseException):
            atexit._run_exitfuncs()
        with suppress(BaseException):
            self._outbox.flush()
        _exit(status)


def kernel_info() -> Content:
    """The content of kernel_info_reply."""
    return {
        "status": "ok",
        "protocol_version": "5.4",
        "implementation": "pandastack",
        "implementation_version": __version__,
        "banner": f"Python {sys.version}",
        "help_links": [],
        "language_info": {
            "name": "python",
            "version": platform.python_version(),
            "mimetype": "text/x-python",
            "file_extension": ".py",
            "pygments_lexer": "ipython3",
            "codemirror_mode": {"name": "ipython", "version": 3},
            "nbconvert_exporter": "python",
        },
    }


def _line(reply: Content) -> str:
    """The answer to an input_request, unless nobody was there to give it."""
    if reply.get("status") == "error":
        raise nobody("input()")
    return str(reply.get("value", ""))


def _is_cell(message: Message) -> bool:
    return bool(message["header"]["msg_type"] == "execute_request")


def _failure(err: BaseException) -> Content:
    return {
        "status": "error",
        "ename": type(err).__name__,
        "evalue": jsonsafe.safe_str(err),
        "traceback": [],
    }


def _flush_before_exit(outbox: Outbox) -> None:
    """Last words before os._exit() reach the client."""
    exit_now, pid = os._exit, getpid()

    def flush_and_exit(status: int) -> None:
        if getpid() == pid:
            outbox.flush()
        exit_now(status)

    os._exit = flush_and_exit  # type: ignore[assignment]
