"""Runs one cell and makes its execute_reply."""

from __future__ import annotations

import sys
from collections.abc import Callable
from os import _exit, getpid, write
from traceback import format_exception
from typing import Any, NoReturn

from .capture import Capture
from .interrupts import Interrupts
from .jsonsafe import safe_str
from .loops import CellLoop
from .shell import ZMQInteractiveShell

Content = dict[str, Any]
Post = Callable[..., None]


class Executor:
    def __init__(
        self,
        shell: ZMQInteractiveShell,
        interrupts: Interrupts,
        loop: CellLoop,
        capture: Capture,
        post: Post,
    ) -> None:
        self._shell = shell
        self._interrupts = interrupts
        self._loop = loop
        self._capture = capture
        self._post = post
        self._pid = getpid()

    def execute(self, request: Content) -> Content:
        """Run the cell of an execute_request; the content of its reply."""
        code = request["code"]
        silent = bool(request.get("silent", False))
        store = bool(request.get("store_history", True)) and not silent
        if not (silent or request.get("lean")):
            count = self._shell.execution_count
            self._post("execute_input", {"code": code, "execution_count": count})
        self._shell.payload_manager.clear_payload()
        err = self._run(code, store, silent)
        if getpid() != self._pid:
            self._leave_fork(err)
        failure = self._failure(err)
        self._capture.end_cell()
        return self._reply(failure, request.get("user_expressions"))

    def _run(self, code: str, store: bool, silent: bool) -> BaseException | None:
        """None, or what the cell failed with. Never raises."""
        shell = self._shell
        shell.last_error = shell.value_error = None
        err: BaseException | None
        try:
            with self._interrupts.allowed(), self._loop.current():
                result = shell.run_cell(code, store_history=store, silent=silent)
            err = result.error_before_exec or result.error_in_exec
        except BaseException as raised:
            # An interrupt between two steps, or user code broke IPython's own.
            err = raised
        return err

    def _failure(self, err: BaseException | None) -> Content | None:
        """The error as it was shown; shows it if it was not."""
        if err is None:
            return self._shell.value_error
        if self._shell.last_error is None:
            lines = format_exception(err)
            self._shell._showtraceback(type(err), err, lines)
        return self._shell.last_error

    def _reply(self, failure: Content | None, expressions: Any) -> Content:
        shell = self._shell
        reply: Content = {
            "status": "ok" if failure is None else "error",
            "execution_count": shell.execution_count - 1,
            "payload": shell.payload_manager.read_payload(),
            "user_expressions": {},
        }
        if failure is not None:
            return {**reply, **failure}
        if expressions:
            reply["user_expressions"] = shell.user_expressions(expressions)
        return reply

    def _leave_fork(self, err: BaseException | None) -> NoReturn:
        """A process that the cell forked reached the cell's end: it ends here,
        for only the parent answers."""
        status = 1
        try:
            if isinstance(err, SystemExit):
                status = _exit_status(err)
            else:
                status = 0 if self._failure(err) is None else 1
            sys.stdout.flush()
            sys.stderr.flush()
        except Exception as failed:
            write(2, safe_str(failed).encode())
        finally:
            _exit(status)


def _exit_status(end: SystemExit) -> int:
    """What Python itself would make of it."""
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code & 0xFF
    print(safe_str(end.code), file=sys.stderr)
    return 1
