"""input() and getpass() through input_request messages."""

from __future__ import annotations

import builtins
import getpass
import os
from collections.abc import Callable
from typing import Any, NoReturn

from IPython.core.error import StdinNotImplementedError

Ask = Callable[[str, bool], str]


class Stdin:
    """Replaces input() and getpass.getpass(); `ask` reaches the client."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._pid = os.getpid()
        self.allowed = False  # by the request that runs

    def install(self) -> None:
        builtins.input = self._input
        getpass.getpass = self._getpass

    def _input(self, prompt: object = "", /) -> str:
        self._check("input()")
        return self._ask(str(prompt), False)

    def _getpass(self, prompt: str = "Password: ", stream: Any = None) -> str:
        self._check("getpass()")
        return self._ask(str(prompt), True)

    def _check(self, what: str) -> None:
        if not self.allowed or os.getpid() != self._pid:
            _refuse(what)


def _refuse(what: str) -> NoReturn:
    raise StdinNotImplementedError(
        f"{what} is not available: nobody is there to answer."
        " Put the value into a variable instead."
    )
