"""Completion, inspection, history: questions about a session.

Finding an answer runs code of the user (properties, `__getattr__`) and tokenizers
that odd code breaks. Where it fails there is nothing to say, which is no error: each
question has its answer without content.
"""

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
    if not found:
        return no_completion(content)
    return {
        "status": "ok",
        "matches": [c.text for c in found],
        "cursor_start": found[0].start,
        "cursor_end": found[0].end,
        "metadata": {"_jupyter_types_experimental": types},
    }


def no_completion(content: Content) -> Content:
    cursor = _cursor(content)
    return {
        "status": "ok",
        "matches": [],
        "cursor_start": cursor,
        "cursor_end": cursor,
        "metadata": {"_jupyter_types_experimental": []},
    }


def inspect(shell: ZMQInteractiveShell, content: Content) -> Content:
    name = token_at_cursor(content["code"], _cursor(content))
    try:
        bundle = shell.object_inspect_mime(
            name, detail_level=content.get("detail_level", 0)
        )
    except KeyError:
        return no_inspection(content)
    if not shell.enable_html_pager:
        bundle.pop("text/html", None)
    return {"status": "ok", "found": True, "data": bundle, "metadata": {}}


def no_inspection(_: Content) -> Content:
    return {"status": "ok", "found": False, "data": {}, "metadata": {}}


def is_complete(shell: ZMQInteractiveShell, content: Content) -> Content:
    status, indent = shell.check_complete(content["code"])
    return {"status": status, **({"indent": indent} if status == "incomplete" else {})}


def unknown_whether_complete(_: Content) -> Content:
    return {"status": "unknown"}


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
