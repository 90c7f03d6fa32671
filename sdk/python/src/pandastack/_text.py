"""Text as a terminal shows it."""

from __future__ import annotations

import re


def rendered(text: str) -> str:
    """Applies carriage returns, backspaces and what erases a line, as a terminal does: a progress bar
    leaves its last state. Colours stay.

    What a cell printed is kept raw; this is for showing it.
    """
    return "\n".join(_line(line) for line in text.split("\n"))


# Control sequences take no room; of them only what erases the line matters here.
_PIECES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|.", re.DOTALL)
_ERASE = {"\x1b[K": "right", "\x1b[0K": "right", "\x1b[1K": "left", "\x1b[2K": "all"}


def _line(line: str) -> str:
    if "\r" not in line and "\b" not in line:
        return line
    shown: list[str] = []  # what is in each column: its character after the sequences that came before it
    at, before = 0, ""
    for piece in _PIECES.findall(line):
        if piece == "\r":
            at = 0
        elif piece == "\b":
            at = max(at - 1, 0)
        elif piece in _ERASE:
            _erase(shown, at, _ERASE[piece])
        elif len(piece) > 1:
            before += piece
        else:
            shown += [" "] * (at - len(shown))
            shown[at : at + 1] = [before + piece]
            at, before = at + 1, ""
    return "".join(shown) + before


def _erase(shown: list[str], at: int, what: str) -> None:
    if what == "left":
        shown[:at] = [" "] * min(at, len(shown))
    else:
        del shown[at if what == "right" else 0 :]
