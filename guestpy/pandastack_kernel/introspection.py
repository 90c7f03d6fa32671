"""Completion, inspection, history: questions about a session."""

from __future__ import annotations

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
    raw, output = content.get("raw", True), content.get("output", False)
    n = content.get("n")
    kind = content.get("hist_access_type", "tail")
    if kind == "tail":
        found = manager.get_tail(n, raw, output, include_latest=True)
    elif kind == "range":
        session, start = content.get("session", 0), content.get("start", 1)
        found = manager.get_range(session, start, content.get("stop"), raw, output)
    else:
        found = manager.search(
            content.get("pattern") or "*",
            raw,
            output=output,
            n=n,
            unique=content.get("unique", False),
        )
    return {"status": "ok", "history": [list(entry) for entry in found]}


def _cursor(content: Content) -> int:
    cursor = content.get("cursor_pos")
    return len(content["code"]) if cursor is None else int(cursor)
