"""input(), getpass() and the debugger: what asks the client for a line."""

from __future__ import annotations

import builtins
import getpass
import pdb
import sys
from collections.abc import Callable
from os import getpid
from typing import Any

from IPython.core import debugger
from IPython.core.error import StdinNotImplementedError

Ask = Callable[[str, bool], str]

END_OF_INPUT = "\x04"  # as an answer: Ctrl-D


class Stdin:
    """Replaces what reads lines; `ask` reaches the client.

    may_ask tells whether somebody answers what the calling thread asks.
    """

    def __init__(self, ask: Ask, may_ask: Callable[[], bool]) -> None:
        self._ask = ask
        self._may_ask = may_ask
        self._pid = getpid()

    def install(self) -> None:
        builtins.input = self._input
        getpass.getpass = self._getpass

    def answers(self) -> bool:
        """Whether somebody answers what the calling thread would ask."""
        return getpid() == self._pid and self._may_ask()

    def check_debugger(self) -> None:
        if not self.answers():
            raise nobody("the debugger", "%tb shows the last traceback")

    def _input(self, prompt: object = "", /) -> str:
        if not self.answers():
            raise nobody("input()")
        return self._answer(str(prompt), False)

    def _getpass(self, prompt: str = "Password: ", stream: Any = None) -> str:
        if not self.answers():
            raise nobody("getpass()")
        return self._answer(str(prompt), True)

    def _answer(self, prompt: str, password: bool) -> str:
        line = self._ask(prompt, password)
        if line == END_OF_INPUT:
            raise EOFError
        return line


def use_ipythons_debugger(shell: Any) -> None:
    """Let pdb and breakpoint() be IPython's debugger, where shell.stdin answers.

    For the zygote: in a kernel it would cost private memory.
    """

    def set_trace(*, header: str | None = None, **_: Any) -> None:
        shell.stdin.check_debugger()
        debugger.set_trace(sys._getframe().f_back, header)

    pdb.Pdb = debugger.Pdb  # type: ignore[misc]
    pdb.set_trace = set_trace


def nobody(
    what: str, instead: str = "Put the value into a variable instead"
) -> StdinNotImplementedError:
    return StdinNotImplementedError(
        f"{what} is not available: nobody is there to answer. {instead}."
    )
