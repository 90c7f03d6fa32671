"""A session's history, kept in memory: nothing of it is another session's."""

from __future__ import annotations

import fnmatch
from typing import Any

from IPython.core.history import HistoryManager

_TAIL = 10  # entries, where nobody says how many


class SessionHistory(HistoryManager):
    """IPython looks for the last and for matching entries in its database only,
    which a session does without."""

    def get_tail(
        self,
        n: int | None = None,
        raw: bool = True,
        output: bool = False,
        include_latest: bool = False,
    ) -> list[Any]:
        entries = self._entries(raw, output)
        if not include_latest:
            entries = entries[:-1]
        return _last(entries, _TAIL if n is None else n)

    def search(
        self,
        pattern: str = "*",
        raw: bool = True,
        search_raw: bool = True,
        output: bool = False,
        n: int | None = None,
        unique: bool = False,
    ) -> list[Any]:
        entries = self._entries(raw, output)
        sources = [e[2][0] if output else e[2] for e in entries]
        found = [
            (source, entry)
            for source, entry in zip(sources, entries, strict=True)
            if fnmatch.fnmatchcase(source, pattern)
        ]
        if unique:  # the latest of each
            found = list({source: (source, entry) for source, entry in found}.values())
        return _last([e for _, e in found], len(found) if n is None else n)

    def _entries(self, raw: bool, output: bool) -> list[Any]:
        return list(self.get_range(0, 1, None, raw=raw, output=output))


def _last(entries: list[Any], n: int) -> list[Any]:
    return entries[max(0, len(entries) - n) :]
