"""Writes src/pandastack/_sync from src/pandastack/_async; with --check, says whether it is up to date.

Only words change: the flavours have the same code, line by line. What truly differs
between them is in their `_io.py`, both written by hand.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent / "src/pandastack"
BY_HAND = "_io.py"
NOTE = "# Generated from {source} by generate_sync.py. Do not edit.\n"

WORDS = [
    (r"\basync (def|with|for)\b", r"\1"),
    (r"``async with``", "``with``"),
    (r"\bawait ", ""),
    (r"\bAwaitable\[(\w+)\]", r"\1"),
    (r"\bAwaitable, ", ""),
    (r"\bAsync([A-Z]\w+)", r"\1"),
    (r"\benter_async_context\b", "enter_context"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\ba(close|read|iter_bytes)\b", r"\1"),
    (r"(get|set)_default_async_client\b", r"\1_default_client"),
]


def to_sync(text: str) -> str:
    """The same module without async."""
    for pattern, replacement in WORDS:
        text = re.sub(pattern, replacement, text)
    return text


def generated() -> dict[Path, str]:
    """What each file of `_sync` has to hold."""
    files = {}
    for source in sorted((PACKAGE / "_async").glob("*.py")):
        if source.name == BY_HAND:
            continue
        note = NOTE.format(source=f"_async/{source.name}")
        files[PACKAGE / "_sync" / source.name] = note + to_sync(source.read_text(encoding="utf-8"))
    return files


def stale(files: dict[Path, str]) -> list[Path]:
    """Files that are missing, differ, or should not be there."""
    there = {path for path in (PACKAGE / "_sync").glob("*.py") if path.name != BY_HAND}
    differ = {p for p, text in files.items() if p not in there or p.read_text(encoding="utf-8") != text}
    return sorted(differ | (there - files.keys()))


def main() -> int:
    files = generated()
    old = stale(files)
    if "--check" in sys.argv[1:]:
        for path in old:
            print(f"{path.relative_to(PACKAGE)} is not what generate_sync.py writes", file=sys.stderr)
        return 1 if old else 0
    for path in old:
        if path in files:
            path.write_text(files[path], encoding="utf-8")
        else:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
