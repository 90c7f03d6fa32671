"""Completion, inspection, history: questions about a session."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from typing import Any

from IPython.core.completer import provisionalcompleter, rectify_completions
from IPython.utils.tokenutil import token_at_cursor

from .shell import ZMQInteractiveShell

Content = dict[str, Any]


def complete(shell: ZMQInteractiveShell, content: Content) -> Content:
    code = content["code"]
    cursor = _cursor(content)
    with provisionalcompleter():
        raw = shell.Completer.completions(code, cursor)
        found = list(rectify_completions(code, raw))
    types = [
        {
            "start": c.start,
            "end": c.end,
            "text": c.text,
            "type": c.type,
            "signature": c.signature,
        }
        for c in found
    ]
    return {
        "status": "ok",
        "matches": [c.text for c in found],
        "cursor_start": found[0].start if found else cursor,
        "cursor_end": found[0].end if found else cursor,
        "metadata": {"_jupyter_types_experimental": types},
    }


def inspect(shell: ZMQInteractiveShell, content: Content) -> Content:
    name = token_at_cursor(content["code"], _cursor(content))
    reply: Content = {"status": "ok", "found": False, "data": {}, "metadata": {}}
    try:
        bundle = shell.object_inspect_mime(
            name, detail_level=content.get("detail_level", 0)
        )
    except KeyError:
        return reply
    if not shell.enable_html_pager:
        bundle.pop("text/html", None)
    return {**reply, "found": True, "data": bundle}


def is_complete(shell: ZMQInteractiveShell, content: Content) -> Content:
    status, indent = shell.check_complete(content["code"])
    return {"status": status, **({"indent": indent} if status == "incomplete" else {})}


def history(shell: ZMQInteractiveShell, content: Content) -> Content:
    manager = shell.history_manager
    options = {"raw": content.get("raw", True), "output": content.get("output", False)}
    kind = content.get("hist_access_type", "tail")
    if kind == "tail":
        count = len(manager.input_hist_parsed)
        start = max(1, count - int(content.get("n") or 10))
        found = manager.get_range(0, start, None, **options)
    elif kind == "range":
        found = manager.get_range(
            content.get("session", 0),
            content.get("start", 1),
            content.get("stop"),
            **options,
        )
    else:
        found = _search(manager.get_range(0, 1, None, **options), content)
    return {"status": "ok", "history": [list(entry) for entry in found]}


def _search(entries: Iterable[Any], content: Content) -> list[Any]:
    """IPython searches its database only, which a session does without."""
    pattern = content.get("pattern") or "*"
    found = [e for e in entries if fnmatch.fnmatchcase(_source(e), pattern)]
    if content.get("unique"):
        found = list({_source(e): e for e in found}.values())
    return found[-int(content.get("n") or len(found)) :] if found else []


def _source(entry: Any) -> str:
    line = entry[2]
    return str(line if isinstance(line, str) else line[0])


def _cursor(content: Content) -> int:
    cursor = content.get("cursor_pos")
    return len(content["code"]) if cursor is None else int(cursor)
