"""Processes and logs that are followed, against fixed bytes."""

from __future__ import annotations

import copy
import json
import pickle
import socket
from typing import Any

import pytest

from pandastack import (
    ExecInterrupted,
    NotOfferedError,
    SandboxFailed,
    SandboxTimeout,
    ServerError,
    _output,
)
from pandastack._events import EventReader
from pandastack._models import ExecChunk, StreamedResult
from tests.flavours import Flavour
from tests.unit.conftest import SANDBOX
from tests.unit.wire_server import WireServer, answer, hang_up

TEXT = "Å\u0085x 🐼\u2028\n"


def frame(name: str, data: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


def stream(*frames: bytes, rest: int = 0) -> bytes:
    """An answer with events; `rest` more bytes are promised than come."""
    body = b"".join(frames)
    length = {"Content-Length": str(len(body) + rest)}
    return answer(200, body, {"Content-Type": "text/event-stream; charset=utf-8", **length})


def test_output_comes_to_the_functions(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    wire.reply(
        stream(
            b":\n\n",
            frame("stdout", {"chunk": TEXT}),
            frame("stderr", {"chunk": "err"}),
            frame("other", {}),
            frame("stdout", {"chunk": "b"}),
            frame("exit", {"exit_code": 3, "duration_ms": 1.5}),
        )
    )
    out: list[str] = []
    err: list[str] = []
    result = flavour.run(
        sandbox.exec_stream(
            ["make", "all"], out.append, err.append, 9, cwd="/tmp", env={"A": "b"}, stdin="in"
        )
    )
    assert (out, err) == ([TEXT, "b"], ["err"])
    assert (result.stdout, result.stderr, result.exit_code, result.duration_ms) == (TEXT + "b", "err", 3, 1.5)
    assert result == 3 and result != 0 and int(result) == 3 and not result.ok
    assert result.truncated is None
    assert wire.requests[0].target == "/v1/sandboxes/s1/exec/stream"
    assert wire.requests[0].json == {
        "argv": ["make", "all"], "cwd": "/tmp", "env": {"A": "b"}, "stdin": "in", "timeout_seconds": 9
    }  # fmt: skip


def test_output_comes_in_parts(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    wire.reply(
        stream(frame("stdout", {"chunk": "a"}), frame("exit", {"exit_code": 137, "signal": "SIGKILL"}))
    )
    *chunks, result = list(flavour.run(sandbox.exec_iter("x")))
    assert chunks == [ExecChunk("stdout", "a")]
    assert isinstance(result, StreamedResult)
    assert (result.exit_code, result.signal, result.stdout) == (137, "SIGKILL", "a")


def test_a_stream_without_an_exit_is_no_success(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    wire.reply(stream(frame("stdout", {"chunk": "half"})), answer(200, SANDBOX))
    with pytest.raises(ExecInterrupted, match="while the process ran") as caught:
        flavour.run(sandbox.exec_stream("make"))
    assert (caught.value.partial_stdout, caught.value.partial_stderr) == ("half", "")


def test_a_stream_that_breaks(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    def half(connection: socket.socket) -> None:
        connection.sendall(stream(frame("stderr", {"chunk": "half"}), rest=1000))
        hang_up(connection)

    wire.reply(half, answer(200, SANDBOX))
    with pytest.raises(ExecInterrupted) as caught:
        flavour.run(sandbox.exec_stream("make"))
    assert caught.value.partial_stderr == "half"


def test_a_machine_that_ends_under_a_stream(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    wire.reply(
        stream(
            frame("stdout", {"chunk": "half"}),
            frame("error", {"error": "It ended.", "code": "sandbox.failed"}),
        )
    )
    with pytest.raises(SandboxFailed, match=r"It ended\.") as caught:
        flavour.run(sandbox.exec_stream("make"))
    assert caught.value.detail["stdout"] == "half"


def test_a_limit(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    wire.reply(
        stream(
            frame("stdout", {"chunk": "on"}),
            frame("error", {"error": "timeout", "code": "exec.timeout", "hint": "More."}),
            frame("exit", {"exit_code": 0, "timed_out": True}),
        )
    )
    with pytest.raises(SandboxTimeout, match=r"More\.") as caught:
        flavour.run(sandbox.exec_stream("make", timeout=1))
    assert (caught.value.partial_stdout, caught.value.code) == ("on", "exec.timeout")


def test_a_refused_stream(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    wire.reply(answer(501, {"error": "No.", "code": "feature.not_offered", "hint": "Ask."}))
    with pytest.raises(NotOfferedError) as caught:
        flavour.run(sandbox.exec_stream("x"))
    assert (caught.value.status, caught.value.hint) == (501, "Ask.")


def test_a_function_that_raises(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    wire.reply(stream(frame("stdout", {"chunk": "a"}), rest=1000))

    def refuse(_: str) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        flavour.run(sandbox.exec_stream("x", refuse))


def test_functions_may_be_coroutines(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    seen: list[str] = []

    async def append(text: str) -> None:
        seen.append(text)

    take = seen.append if flavour.name == "sync" else append

    wire.reply(stream(frame("stdout", {"chunk": "a"}), frame("exit", {"exit_code": 0})))
    assert flavour.run(sandbox.exec_stream("x", take)) == 0
    assert seen == ["a"]


@pytest.mark.parametrize("bad", [b"data: nonsense\n\n", frame("exit", {}), frame("exit", {"exit_code": "0"}),
                                 frame("stdout", 7), frame("stdout", {"chunk": None})])  # fmt: skip
def test_events_that_are_not_understood(flavour: Flavour, wire: WireServer, sandbox: Any, bad: bytes) -> None:
    wire.reply(stream(bad))
    with pytest.raises(ServerError) as caught:
        flavour.run(sandbox.exec_stream("x"))
    assert caught.value.code == "client.bad_answer"


def test_output_is_bounded(
    flavour: Flavour, wire: WireServer, sandbox: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_output, "KEPT", 10)
    chunks = [frame("stdout", {"chunk": text}) for text in ("abc", "defgh", "ijkl", "Å", "nop")]
    wire.reply(stream(*chunks, frame("exit", {"exit_code": 0})))
    result = flavour.run(sandbox.exec_stream("x"))
    assert result.stdout == "abcde" + "lÅnop"
    assert result.truncated.stdout.bytes == 17
    assert result.truncated.stdout.kept == 11
    assert result.truncated.stderr is None


def test_a_streamed_result_is_a_number_that_can_be_copied() -> None:
    result = StreamedResult(stdout="o", stderr="e", exit_code=3)
    for again in (copy.copy(result), pickle.loads(pickle.dumps(result))):
        assert (again, again.exit_code, again.stdout, int(again)) == (result, 3, "o", 3)


def test_events_are_read_from_any_pieces() -> None:
    data = (
        b':c\n\nevent: a\r\ndata: {"x":\r\ndata: 1}\r\n\r\ndata:2\n\n'
        b"event: lost\n\nid: 7\ndata: 3\n\ndata: 4\n"
    )
    for size in (1, 2, 3, len(data)):
        reader = EventReader()
        events = [e for i in range(0, len(data), size) for e in reader.feed(data[i : i + size])]
        assert events == [("a", {"x": 1}), ("message", 2), ("message", 3)]


def test_logs(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    wire.reply(answer(200, "one\nÅ\n".encode(), {"Content-Type": "text/plain; charset=utf-8"}))
    assert list(flavour.run(sandbox.logs())) == ["one", "Å"]
    assert wire.requests[0].target == "/v1/sandboxes/s1/logs?stream=both"
    lines = [f"data: {json.dumps({'line': line})}\n\n".encode() for line in ("one", TEXT)]
    wire.reply(stream(b":\n\n", *lines))
    assert list(flavour.run(sandbox.logs("agent", follow=True))) == ["one", TEXT]
    assert wire.requests[1].target == "/v1/sandboxes/s1/logs?stream=agent&follow=true"
    wire.reply(stream(frame("error", {"error": "It went.", "code": "sandbox.not_found"})))
    with pytest.raises(ServerError, match="It went"):
        list(flavour.run(sandbox.logs(follow=True)))


def test_lifecycle(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    life = {"ttl_seconds": 60, "persistent": True, "idle_seconds": 1.5, "expires_at": "2026-01-01T00:00:00Z"}
    wire.reply(*[answer(200, life)] * 3)
    defaults = {"idle_timeout_seconds": 0, "on_timeout": "kill", "auto_wake": True}
    assert flavour.run(sandbox.lifecycle()) == {**life, **defaults}
    assert flavour.run(sandbox.set_ttl(60))["ttl_seconds"] == 60
    assert (sandbox.ttl_seconds, sandbox.expires_at) == (60, "2026-01-01T00:00:00Z")
    flavour.run(sandbox.set_persistent(True))
    assert sandbox.persistent
    assert [request.json for request in wire.requests[1:]] == [{"ttl_seconds": 60}, {"persistent": True}]


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("pause", []), ("resume", []), ("hibernate", []), ("wake", []), ("snapshot", []), ("fork", []),
     ("fork_tree", [2]), ("preview_url", [80]), ("preview_urls", [])],
)  # fmt: skip
def test_what_is_not_offered(
    flavour: Flavour, wire: WireServer, sandbox: Any, method: str, arguments: list[int]
) -> None:
    wire.reply(answer(501, {"error": "No.", "code": "feature.not_offered", "hint": "See docs/api.md."}))
    with pytest.raises(NotOfferedError) as caught:
        flavour.run(getattr(sandbox, method)(*arguments))
    assert (caught.value.code, caught.value.hint) == ("feature.not_offered", "See docs/api.md.")
    assert isinstance(caught.value, ServerError)
