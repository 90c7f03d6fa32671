"""Text as a terminal shows it."""

from __future__ import annotations


def rendered(text: str) -> str:
    """Applies carriage returns and backspaces, as a terminal does: a progress bar leaves its last state.

    What a cell printed is kept raw; this is for showing it.
    """
    return "\n".join(_line(line) for line in text.split("\n"))


def _line(line: str) -> str:
    if "\r" not in line and "\b" not in line:
        return line
    shown: list[str] = []
    at = 0
    for piece in line.split("\r"):
        at = 0
        for char in piece:
            if char == "\b":
                at = max(at - 1, 0)
            else:
                shown[at : at + 1] = [char]
                at += 1
    return "".join(shown)
