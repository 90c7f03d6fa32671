"""Notebooks that are run, against fixed bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from pandastack import BadRequestError, NotebookProgress
from tests.flavours import Flavour
from tests.unit.test_executions import done, event
from tests.unit.test_streams import stream
from tests.unit.wire_server import WireServer, answer


def notebook(*cells: dict[str, Any]) -> dict[str, Any]:
    return {"cells": list(cells), "metadata": {"mine": 1}, "nbformat": 4, "nbformat_minor": 5}


def code(source: Any, **more: Any) -> dict[str, Any]:
    old = [{"output_type": "stream", "name": "stdout", "text": "old"}]
    return {
        "cell_type": "code",
        "metadata": {},
        "source": source,
        "outputs": old,
        "execution_count": 9,
        **more,
    }


def write(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_a_notebook_gets_its_outputs(
    flavour: Flavour, wire: WireServer, context: Any, tmp_path: Path
) -> None:
    markdown = {"cell_type": "markdown", "metadata": {}, "source": ["# Ü"], "id": "m"}
    path = write(
        tmp_path / "in.ipynb", notebook(markdown, code(["a\n", "b"], id="c1"), code(" \n"), code("x"))
    )
    shown = {"data": {"text/plain": "0%"}, "display_id": "d"}
    updated = {
        "data": {"text/plain": "100%\n.", "image/png": "AAA=", "application/json": ["l"]},
        "display_id": "d",
    }
    main = {"data": {"text/html": "<b>\n</b>"}, "metadata": {"k": 1}, "is_main_result": True}
    error = {"name": "E", "value": "v", "traceback": "a\nb"}
    wire.reply(
        stream(
            event(1, "stdout", text="gone"), event(2, "clear_output", wait=True),
            event(3, "stdout", text="1\n2"), event(4, "stdout", text="3\r"),
            event(5, "stderr", text="e\n"), event(6, "result", result=shown),
            event(7, "display_update", result=updated), event(8, "result", result=main, execution_count=4),
            done(9, execution_count=4),
        ),
        stream(event(1, "error", error=error), done(2, status="error", error=error, execution_count=5)),
    )  # fmt: skip
    steps: list[NotebookProgress] = []
    out = tmp_path / "out.ipynb"
    ran = flavour.run(context.run_notebook(path, out, timeout=9, on_progress=steps.append))
    assert [(s.number, s.total, s.execution is None) for s in steps] == [
        (1, 2, True), (1, 2, False), (2, 2, True), (2, 2, False)
    ]  # fmt: skip
    assert (wire.requests[0].json["code"], wire.requests[0].json["timeout_seconds"]) == ("a\nb", 9)
    assert ran.error.name == "E"
    saved = json.loads(out.read_text(encoding="utf-8"))
    assert saved == ran.notebook
    assert (saved["cells"][0], saved["metadata"]) == (markdown, {"mine": 1})
    assert saved["cells"][1]["outputs"] == [
        {"output_type": "stream", "name": "stdout", "text": ["1\n", "23\r"]},
        {"output_type": "stream", "name": "stderr", "text": ["e\n"]},
        {
            "output_type": "display_data", "metadata": {},
            "data": {"text/plain": ["100%\n", "."], "image/png": "AAA=", "application/json": ["l"]},
        },
        {
            "output_type": "execute_result", "metadata": {"k": 1}, "execution_count": 4,
            "data": {"text/html": ["<b>\n", "</b>"]},
        },
    ]  # fmt: skip
    assert (saved["cells"][1]["execution_count"], saved["cells"][1]["id"]) == (4, "c1")
    assert (saved["cells"][2]["outputs"], saved["cells"][2]["execution_count"]) == ([], None)
    assert saved["cells"][3]["outputs"] == [
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["a", "b"]}
    ]


def test_a_failure_ends_a_notebook(flavour: Flavour, wire: WireServer, context: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "in.ipynb", notebook(code("a"), code("b")))
    late = {"name": "Timeout", "value": "too long"}
    wire.reply(stream(done(1, status="timeout", error=late)))
    ran = flavour.run(context.run_notebook(path))
    assert len(ran.executions) == 1
    assert ran.notebook["cells"][0]["outputs"] == [
        {"output_type": "error", "ename": "Timeout", "evalue": "too long", "traceback": []}
    ]
    wire.reply(stream(done(1, status="timeout", error=late)), stream(done(1)))
    assert len(flavour.run(context.run_notebook(path, keep_going=True)).executions) == 2


def test_tags_say_which_cells_may_fail_or_are_left_alone(
    flavour: Flavour, wire: WireServer, context: Any, tmp_path: Path
) -> None:
    def tagged(*tags: str) -> dict[str, Any]:
        return {"metadata": {"tags": list(tags)}}

    skipped = code("never", **tagged("skip-execution"))
    cells = (
        code("a", **tagged("x", "raises-exception")),
        skipped,
        code("b"),
        code("c", **tagged("raises-exception")),
    )
    path = write(tmp_path / "in.ipynb", notebook(*cells))
    failed = {"status": "error", "error": {"name": "E", "value": "v"}}
    wire.reply(stream(done(1, **failed)), stream(done(1)), stream(done(1, **failed)))
    ran = flavour.run(context.run_notebook(path))
    assert [request.json["code"] for request in wire.requests] == ["a", "b", "c"]
    assert (len(ran.executions), ran.error, ran.notebook["cells"][1]) == (3, None, skipped)
    failed["error"]["name"] = "Other"
    wire.reply(stream(done(1, **failed)), stream(done(1, **failed)))
    assert flavour.run(context.run_notebook(path)).error.name == "Other"


def test_a_display_is_updated_in_the_cell_that_shows_it(
    flavour: Flavour, wire: WireServer, context: Any, tmp_path: Path
) -> None:
    def shown(text: str) -> dict[str, Any]:
        return {"data": {"text/plain": text}, "display_id": "d"}

    cells = (
        stream(event(1, "result", result=shown("one")), done(2, execution_count=1)),
        stream(done(1, execution_count=2)),
        stream(
            event(1, "result", result=shown("too")), event(2, "clear_output"),
            event(3, "result", result=shown("two")), event(4, "display_update", result=shown("three")),
            done(5, execution_count=3),
        ),
    )  # fmt: skip
    wire.reply(*cells)
    path = write(tmp_path / "in.ipynb", notebook(code("a"), code("b"), code("c")))
    ran = flavour.run(context.run_notebook(path)).notebook
    lines = [{"session": 0, "line": n, "code": "c"} for n in (1, 2, 3)]
    kept = [
        {"id": f"x{n}", "execution_count": n, "status": "ok", "context_id": "c1", "code": "c",
         "queued_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:00:01Z"}
        for n in (1, 2, 3)
    ]  # fmt: skip
    wire.reply(answer(200, {"items": lines}), answer(200, {"items": kept}), *cells)
    exported = json.loads(flavour.run(context.export_notebook(tmp_path / "out.ipynb")).read_text())
    for made in (ran, exported):
        seen = [[output["data"]["text/plain"] for output in cell["outputs"]] for cell in made["cells"]]
        assert seen == [[["three"]], [], [["three"]]]


def test_what_ran_is_written_whatever_ends_the_run(
    flavour: Flavour, wire: WireServer, context: Any, tmp_path: Path
) -> None:
    path = write(
        tmp_path / "in.ipynb", notebook(code("a"), code("b"), {"cell_type": "raw", "source": "\ud800"})
    )
    refusal = answer(400, {"error": "it has a NUL", "code": "request.bad_json"})
    wire.reply(stream(event(1, "stdout", text="1"), done(2, execution_count=1)), refusal)
    link = tmp_path / "link.ipynb"
    link.symlink_to(path)
    path.chmod(0o640)
    with pytest.raises(BadRequestError):
        flavour.run(context.run_notebook(path, link))
    written = json.loads(path.read_text())
    assert [cell.get("execution_count") for cell in written["cells"]] == [1, None, None]
    assert written["cells"][2]["source"] == "\ud800"
    assert (link.is_symlink(), path.stat().st_mode & 0o777) == (True, 0o640)
    wire.requests.clear()
    with pytest.raises(FileNotFoundError, match="no such folder"):
        flavour.run(context.run_notebook(path, tmp_path / "nowhere" / "out.ipynb"))
    assert wire.requests == []
    assert sorted(one.name for one in tmp_path.iterdir()) == ["in.ipynb", "link.ipynb"]


@pytest.mark.parametrize(
    "content",
    [
        [],
        {},
        {"cells": []},
        {"cells": [7], "nbformat": 4},
        {"cells": [{"source": [1]}], "nbformat": 4},
        {"cells": [], "nbformat": 3},
    ],
)
def test_what_is_no_notebook(flavour: Flavour, context: Any, tmp_path: Path, content: object) -> None:
    with pytest.raises(ValueError, match=r"no notebook|is none"):
        flavour.run(context.run_notebook(write(tmp_path / "bad.ipynb", content)))


def test_a_history_becomes_a_notebook(
    flavour: Flavour, wire: WireServer, context: Any, tmp_path: Path
) -> None:
    lines = [{"session": 0, "line": n, "code": code} for n, code in ((1, "a\nb"), (2, "b"), (3, "c"))]
    ran = {"status": "ok", "context_id": "c1", "code": "b", "queued_at": "2026-01-01T00:00:00Z"}
    wire.reply(
        answer(200, {"items": lines}),
        answer(200, {"items": [
            {**ran, "id": "before_the_restart", "execution_count": 2, "ended_at": "2026-01-01T00:00:01Z"},
            {**ran, "id": "x2", "execution_count": 2, "ended_at": "2026-01-01T00:00:02.5Z"},
            {**ran, "id": "blank", "code": " ", "execution_count": 2, "ended_at": "2026-01-01T00:00:03Z"},
            {**ran, "id": "widget", "comm_id": "w", "ended_at": "2026-01-01T00:00:03Z"},
            {**ran, "id": "x3", "execution_count": 3, "ended_at": "2026-01-01T00:00:04Z"},
        ]}),
        stream(
            event(1, "result", result={"data": {"text/plain": "7"}, "is_main_result": True}),
            done(2, execution_count=2), event(3, "stdout", text="late"),
        ),
        answer(404, {"error": "gone", "code": "execution.not_found"}),
    )  # fmt: skip
    path = flavour.run(context.export_notebook(tmp_path / "out.ipynb"))
    assert wire.requests[2].target == "/v1/sandboxes/s1/executions/x2/events?after=0&follow=none"
    exported = json.loads(path.read_text())
    nbformat.validate(exported)
    first, second, third = exported["cells"]
    assert (first["source"], first["execution_count"], first["outputs"]) == (["a\n", "b"], 1, [])
    assert first["metadata"] == third["metadata"] == {"pandastack": {"outputs": "not kept"}}
    assert second["metadata"] == {}
    assert second["outputs"] == [
        {
            "output_type": "execute_result", "metadata": {}, "execution_count": 2,
            "data": {"text/plain": ["7"]},
        },
        {"output_type": "stream", "name": "stdout", "text": ["late"]},
    ]  # fmt: skip
