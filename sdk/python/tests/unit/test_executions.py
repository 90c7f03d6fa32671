"""Cells that are followed, against fixed bytes."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

from pandastack import (
    BadRequestError,
    CellError,
    CellFailed,
    Execution,
    ExecutionEvent,
    InputRequest,
    NotFoundError,
    Result,
    SandboxFailed,
    Table,
    rendered,
)
from pandastack._async import executions as async_executions
from pandastack._sync import executions as sync_executions
from tests.flavours import Flavour
from tests.unit.conftest import CONTEXT, SANDBOX
from tests.unit.test_streams import frame, stream
from tests.unit.wire_server import WireServer, answer, hang_up

RUNS = "/v1/sandboxes/s1/contexts/c1/executions"


def event(seq: int, kind: str, **fields: Any) -> bytes:
    return f"id: {seq}\n".encode() + frame(kind, {"seq": seq, "type": kind, **fields})


def done(seq: int, **fields: Any) -> bytes:
    return event(seq, "done", execution={"id": "x", "status": "ok", "events": seq, **fields})


def collect(flavour: Flavour, items: Any) -> list[Any]:
    return list(flavour.run(items))


def test_a_cell_comes_to_the_functions(flavour: Flavour, wire: WireServer, context: Any) -> None:
    shown = {"data": {"text/plain": "42"}, "is_main_result": True}
    error = {"name": "E", "value": "v", "traceback": "t"}
    wire.reply(
        stream(
            b":\n\n",
            event(1, "stdout", text="a\r"),
            event(2, "stderr", text="e"),
            event(3, "result", result=shown, execution_count=1),
            event(4, "error", error=error),
            event(5, "of_tomorrow"),
            done(6, status="error", error=error, stdout="a\r", results=[shown]),
        )
    )
    seen: list[Any] = []
    ex = flavour.run(
        context.run_code(
            "code", 9, on_stdout=seen.append, on_stderr=seen.append, on_result=seen.append,
            on_error=seen.append, on_event=lambda e: seen.append(e.seq), max_output=100,
        )
    )  # fmt: skip
    assert seen[:8:2] + seen[8:] == [1, 2, 3, 4, 5, 6]
    assert seen[1:8:2] == ["a\r", "e", Result({"text/plain": "42"}, is_main_result=True), ex.error]
    assert (ex.text, ex.stdout, ex.status) == ("42", "a\r", "error")
    request = wire.requests[0]
    assert (request.target, request.headers["accept"]) == (RUNS, "text/event-stream")
    body = dict(request.json)
    assert body.pop("id")
    assert body == {"code": "code", "timeout_seconds": 9, "output": {"stream_bytes": 100}}


def test_a_message_to_a_comm(flavour: Flavour, wire: WireServer, context: Any) -> None:
    wire.reply(stream(event(1, "comm", comm={"comm_id": "c", "buffers": ["AQ=="]}), done(2)), stream(done(1)))
    seen: list[Any] = []
    ex = flavour.run(
        context.send_comm("c", {"a": 1}, buffers=[b"\0\1"], timeout=2, on_event=lambda e: seen.append(e.comm))
    )
    assert (ex.ok, seen) == (True, [{"comm_id": "c", "buffers": ["AQ=="]}, None])
    body = dict(wire.requests[0].json)
    assert wire.requests[0].target == "/v1/sandboxes/s1/contexts/c1/comms"
    assert body.pop("id")
    comm = {"msg_type": "comm_msg", "comm_id": "c", "data": {"a": 1}, "buffers": ["AAE="]}
    assert body == {"timeout_seconds": 2, "comm": comm}
    flavour.run(context.send_comm("c", kind="comm_open", target_name="t", metadata={"v": "2"}))
    opened = wire.requests[1].json["comm"]
    assert opened == {
        "msg_type": "comm_open", "comm_id": "c", "data": {}, "target_name": "t", "metadata": {"v": "2"}
    }  # fmt: skip


def test_what_comes_after_the_end(flavour: Flavour, wire: WireServer, context: Any) -> None:
    wire.reply(
        stream(event(1, "stdout", text="a"), done(2), event(3, "stdout", text="late")),
        answer(200, {"id": "x", "status": "ok", "events": 3}),
    )
    handle = context.attach("x")
    assert [e.seq for e in collect(flavour, handle.events(follow="all"))] == [1, 2, 3]
    assert wire.requests[0].target.endswith("/executions/x/events?after=0&follow=all")
    wire.reply(stream(event(1, "stdout", text="a")))  # it still runs
    assert [e.seq for e in collect(flavour, handle.events(follow="none"))] == [1]
    with pytest.raises(ValueError, match="follow"):
        collect(flavour, handle.events(follow="ever"))


def test_a_failed_cell_that_is_checked(flavour: Flavour, wire: WireServer, context: Any) -> None:
    wire.reply(stream(done(1, status="error", error={"name": "E"})))
    with pytest.raises(CellFailed):
        flavour.run(context.run_code("1/0", check=True, on_event=lambda _: None))


def test_a_stream_that_breaks_is_taken_up(flavour: Flavour, wire: WireServer, context: Any) -> None:
    def half(connection: socket.socket) -> None:
        connection.sendall(stream(event(1, "stdout", text="a"), rest=1000))
        hang_up(connection)

    wire.reply(hang_up, half, stream(event(1, "stdout", text="a"), event(2, "stdout", text="b")))
    wire.reply(answer(200, {"id": "x", "status": "running", "events": 2}), stream(done(3, stdout="abc")))
    texts: list[str] = []
    ex = flavour.run(context.run_code("code", on_stdout=texts.append))
    assert (ex.stdout, texts) == ("abc", ["a", "b"])
    key = wire.requests[0].json["id"]
    assert [(r.method, r.target) for r in wire.requests] == [
        ("POST", RUNS),
        ("POST", RUNS),
        ("GET", f"/v1/sandboxes/s1/executions/{key}/events?after=1"),
        ("GET", f"/v1/sandboxes/s1/executions/{key}"),
        ("GET", f"/v1/sandboxes/s1/executions/{key}/events?after=2"),
    ]
    assert wire.requests[1].json["id"] == key


def test_a_server_that_does_not_come_back(
    flavour: Flavour, wire: WireServer, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (async_executions, sync_executions):
        monkeypatch.setattr(module, "_REATTACH", 0.0)
    wire.reply(hang_up, answer(200, {**SANDBOX, "status": "failed", "failure": "it was killed"}))
    with pytest.raises(SandboxFailed, match="it was killed"):
        flavour.run(context.run_code("code", on_event=lambda _: None))


def test_a_stream_that_breaks_after_a_long_silence_is_taken_up(
    flavour: Flavour, wire: WireServer, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (async_executions, sync_executions):
        monkeypatch.setattr(module, "_REATTACH", 0.3)

    def silent(connection: socket.socket) -> None:
        connection.sendall(stream(rest=1000))
        time.sleep(0.5)
        hang_up(connection)

    wire.reply(silent, stream(done(1, stdout="a")))
    assert flavour.run(context.run_code("code", on_event=lambda _: None)).stdout == "a"


def test_what_the_server_says_of_a_stream_is_raised(flavour: Flavour, wire: WireServer, context: Any) -> None:
    wire.reply(
        stream(event(1, "stdout", text="a"), frame("failure", {"error": "Gone.", "code": "sandbox.failed"}))
    )
    with pytest.raises(SandboxFailed, match="Gone"):
        flavour.run(context.run_code("code", on_event=lambda _: None))
    wire.reply(answer(404, {"error": "None.", "code": "context.not_found"}))
    with pytest.raises(NotFoundError):
        flavour.run(context.run_code("code", on_event=lambda _: None))


def test_a_cell_in_events(flavour: Flavour, wire: WireServer, context: Any) -> None:
    dropped = {"first": 2, "bytes": 9, "stdout": {"bytes": 7, "lines": 1}}
    wire.reply(stream(event(1, "started"), event(5, "dropped", dropped=dropped), done(6)))
    events = collect(flavour, context.stream("code"))
    assert [(e.seq, e.type) for e in events] == [(1, "started"), (5, "dropped"), (6, "done")]
    assert events[1].dropped.stdout_bytes == 7
    assert isinstance(events[2].execution, Execution)
    assert isinstance(events[0], ExecutionEvent)


def test_a_cell_that_is_started(flavour: Flavour, wire: WireServer, context: Any) -> None:
    wire.reply(answer(202, {"id": "x", "status": "queued", "queued_at": "2026-01-01T00:00:00Z"}))
    handle = flavour.run(context.start("code", batch="b", stop_on_error=True, allow_stdin=True))
    body = wire.requests[0].json
    assert body == {
        "code": "code", "id": handle.id, "detached": True, "batch": "b",
        "stop_on_error": True, "allow_stdin": True,
    }  # fmt: skip
    wire.reply(
        answer(200, {"id": "x", "status": "running", "events": 2}), stream(event(3, "stdout"), done(4))
    )
    assert flavour.run(handle.wait()).status == "ok"
    assert wire.requests[-1].target.endswith("/events?after=2")
    wire.reply(answer(200, {"id": "x", "status": "ok", "events": 4}))
    assert flavour.run(handle.wait()).events == 4
    wire.reply(stream(b":\n\n"), answer(200, {"id": "x", "status": "ok", "events": 4}))
    assert collect(flavour, handle.events(after=4)) == []
    wire.reply(answer(204, b""), answer(204, b""), answer(200, "Å\n".encode()))
    flavour.run(handle.cancel())
    flavour.run(handle.input("yes"))
    assert flavour.run(handle.output("stderr")) == "Å\n"
    last = [request.target.rpartition("/")[2] for request in wire.requests[-3:]]
    assert last == ["cancel", "input", "output?stream=stderr"]


def test_questions_are_answered(flavour: Flavour, wire: WireServer, context: Any) -> None:
    ask = event(1, "input_request", input={"prompt": "? ", "password": True})
    wire.reply(stream(ask, done(2)), answer(204, b""))
    asked: list[InputRequest] = []

    def tell(question: InputRequest) -> str:
        asked.append(question)
        return "secret"

    flavour.run(context.run_code("code", on_input=tell))
    assert asked == [InputRequest("? ", True)]
    assert wire.requests[0].json["allow_stdin"] is True
    assert wire.requests[1].json == {"text": "secret"}
    wire.requests.clear()
    wire.reply(stream(ask, event(2, "input_request", input={}), done(3)), answer(204, b""), answer(204, b""))
    flavour.run(context.run_code("code", stdin="one\n"))
    assert [request.json["text"] for request in wire.requests[1:]] == ["one", "\x04"]
    given = iter(["a line\r\n", None])
    for answers in ({"stdin": ["a line\n"]}, {"stdin": "a line\r\n"}, {"on_input": lambda _: next(given)}):
        wire.requests.clear()
        wire.reply(
            stream(ask, event(2, "input_request", input={}), done(3)), answer(204, b""), answer(204, b"")
        )
        flavour.run(context.run_code("code", **answers))
        assert [request.json["text"] for request in wire.requests[1:]] == ["a line", "\x04"]
    with pytest.raises(ValueError, match="not both"):
        flavour.run(context.run_code("code", stdin="", on_input=tell))


def test_a_question_nobody_can_answer_ends_the_cell(flavour: Flavour, wire: WireServer, context: Any) -> None:
    def refuse(_: InputRequest) -> str:
        raise LookupError("mine")

    ask = stream(event(1, "input_request", input={}), rest=1000)
    wire.reply(ask, answer(204, b""))
    with pytest.raises(LookupError):
        flavour.run(context.run_code("code", on_input=refuse))
    wire.reply(ask, answer(400, {"error": "it has a NUL", "code": "request.bad_json"}), answer(204, b""))
    with pytest.raises(BadRequestError):
        flavour.run(context.run_code("code", on_input=lambda _: "a\0"))
    wire.reply(ask, answer(204, b""))
    with pytest.raises(UnicodeEncodeError):
        flavour.run(context.run_code("code", stdin="\ud800"))
    calls = [request.target.rpartition("/")[2] for request in wire.requests]
    assert calls == ["executions", "cancel", "executions", "input", "cancel", "executions", "cancel"]


def test_lines_of_input_end_where_pythons_do(flavour: Flavour, wire: WireServer, context: Any) -> None:
    ask = event(1, "input_request", input={})
    wire.reply(stream(ask, event(2, "input_request", input={}), done(3)), answer(204, b""), answer(204, b""))
    flavour.run(context.run_code("code", stdin="a\u2028b\x85c\x0cd\x0be\nf"))
    assert [request.json["text"] for request in wire.requests[1:]] == ["a\u2028b\x85c\x0cd\x0be", "f"]


def test_an_error_says_why_a_cell_was_ended() -> None:
    where = "Traceback …\nKeyboardInterrupt"
    assert str(CellError("Timeout", "ran too long", where)) == f"{where}\nTimeout: ran too long"
    mine = "Traceback …\nTimeout: of requests"
    assert str(CellError("Timeout", "of requests", mine)) == mine
    assert str(CellError("ValueError", "x", "Traceback …")) == "Traceback …"
    assert str(CellError("KernelDied", "it was killed")) == "KernelDied: it was killed"


def test_context_calls(flavour: Flavour, wire: WireServer, context: Any) -> None:
    items = [
        {"id": "a", "status": "ok"},
        {"id": "b", "status": "running"},
        {"id": "c", "status": "queued", "position": 1},
    ]
    wire.reply(answer(200, {"items": items}))
    assert [(one.id, one.position) for one in flavour.run(context.queue())] == [("b", 0), ("c", 1)]
    wire.reply(answer(200, {**CONTEXT, "restarts": 1, "name": "n", "waiting": 2}))
    again = flavour.run(context.restart())
    assert (again is context, context.restarts, context.name, context.waiting) == (True, 1, "n", 2)
    wire.reply(answer(200, {"matches": ["print"], "cursor_start": 0, "cursor_end": 2}))
    assert flavour.run(context.complete("pr")).matches == ["print"]
    wire.reply(answer(200, {"found": True, "data": {"text/plain": "doc"}}))
    assert flavour.run(context.inspect("pr", 0)) == {"text/plain": "doc"}
    assert wire.requests[-1].json == {"code": "pr", "cursor_pos": 0, "detail": 0}
    wire.reply(answer(200, {"status": "incomplete", "indent": "    "}))
    assert flavour.run(context.is_complete("for x in y:")) == "incomplete"
    wire.reply(answer(200, {"items": [{"session": 0, "line": 1, "code": "x"}]}))
    assert [entry.code for entry in flavour.run(context.history(5))] == ["x"]


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("10%\r20%\r30%\n", "30%\n"),
        ("abc\rx\n", "xbc\n"),
        ("a\bb", "b"),
        ("plain\r\n", "plain\n"),
        ("ü\r🐼", "🐼"),
        ("\r[1/2] compiling\x1b[K\r[2/2] link\x1b[K\n", "[2/2] link\n"),
        ("12345\r\x1b[31mq\x1b[0m", "\x1b[31mq2345\x1b[0m"),
        ("abc\x1b[2K\rx", "x"),
        ("abc\bd\x1b[1Ke", "   e"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x07\rL", "\x1b]8;;\x07Link"),
    ],
)
def test_text_as_a_terminal_shows_it(raw: str, shown: str) -> None:
    assert rendered(raw) == shown
    assert Execution(stdout=raw).rendered["stdout"] == shown


def test_a_table() -> None:
    data = {
        "kind": "dataframe", "row_count": 2000, "column_count": 2, "truncated": True,
        "index": [{"name": None, "dtype": "int64"}],
        "columns": [{"name": "day", "dtype": "datetime64[us]"}, {"name": ["a", "b"], "dtype": "float64"}],
        "row_labels": [[0], [1]],
        "rows": [["2024-01-01T00:00:00", 12.5], [None, {"$numberDouble": "-Infinity"}]],
    }  # fmt: skip
    result = Result({"application/vnd.pandastack.data+json": data})
    table = result.table
    assert isinstance(table, Table)
    assert (table.row_count, table.truncated, table.columns[0].dtype) == (2000, True, "datetime64[us]")
    assert table.records()[1] == {"day": None, ("a", "b"): float("-inf")}
    assert table.column_levels == []
    assert Table.from_dict({**data, "column_levels": ["u", None]}).column_levels == ["u", None]
    assert Execution(results=[result]).table == table
    assert Result({}).table is None
