"""Connections that break, answers that do not come or are not understood."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pandastack import (
    ConnectionError,
    ExecInterrupted,
    NotFoundError,
    SandboxFailed,
    SandboxTimeout,
    ServerError,
    _wire,
)
from pandastack._async import executions as async_executions
from pandastack._sync import executions as sync_executions
from tests.flavours import Flavour
from tests.unit.test_executions import done
from tests.unit.test_streams import stream
from tests.unit.wire_server import WireServer, answer, hang_up

RUNNING = {"id": "s1", "status": "running"}
DONE = {"id": "e1", "status": "ok", "stdout": "42\n"}
ONCE = [hang_up] * 4  # one call's attempts
LOST = [*ONCE, hang_up]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is gone is not waited for."""
    for module in (async_executions, sync_executions):
        monkeypatch.setattr(module, "_REATTACH", 0.0)


def test_a_cell_whose_connection_breaks_is_asked_for_again_by_its_id(
    flavour: Flavour, wire: WireServer, context: Any
) -> None:
    wire.reply(hang_up, answer(200, DONE))
    assert flavour.run(context.run_code("print(42)")).stdout == "42\n"
    first, second = (request.json for request in wire.requests)
    assert first == second
    assert first["id"]


def test_a_cell_outlives_a_server_that_takes_long_to_come_back(
    flavour: Flavour, wire: WireServer, context: Any
) -> None:
    wire.reply(*ONCE, hang_up, hang_up, stream(done(1, stdout="42\n")))
    assert flavour.run(context.run_code("print(42)", max_output=9)).stdout == "42\n"
    first, *others = (request.json for request in wire.requests)
    assert all(other == first for other in others)
    assert len(others) == 6


def test_two_cells_have_two_ids(flavour: Flavour, wire: WireServer, context: Any) -> None:
    wire.reply(answer(200, DONE), answer(200, DONE))
    flavour.run(context.run_code("1"))
    flavour.run(context.run_code("1"))
    assert wire.requests[0].json["id"] != wire.requests[1].json["id"]


@pytest.mark.usefixtures("impatient")
def test_a_sandbox_that_failed_meanwhile(flavour: Flavour, wire: WireServer, context: Any) -> None:
    failed = {**RUNNING, "status": "failed", "failure": "QEMU was killed"}
    wire.reply(*LOST, answer(200, failed))
    with pytest.raises(SandboxFailed, match="QEMU was killed"):
        flavour.run(context.run_code("1"))


@pytest.mark.usefixtures("impatient")
def test_a_sandbox_that_is_gone(flavour: Flavour, wire: WireServer, context: Any) -> None:
    wire.reply(*LOST, answer(404, {"error": "No sandbox s1.", "code": "sandbox.not_found"}))
    with pytest.raises(NotFoundError, match="No sandbox s1"):
        flavour.run(context.run_code("1"))


@pytest.mark.usefixtures("impatient")
def test_a_sandbox_that_still_runs(flavour: Flavour, wire: WireServer, context: Any) -> None:
    wire.reply(*LOST, answer(200, RUNNING))
    with pytest.raises(ExecInterrupted, match=r"broke while the cell ran.*Sandbox s1 is running"):
        flavour.run(context.run_code("1"))


@pytest.mark.usefixtures("impatient")
def test_a_server_that_is_killed(flavour: Flavour, wire: WireServer, context: Any) -> None:
    def killed(connection: socket.socket) -> None:
        wire.stop_listening(connection)

    wire.reply(killed)
    with pytest.raises(ExecInterrupted, match=r"broke while the cell ran.*does not answer any more"):
        flavour.run(context.run_code("1"))


def test_a_process_is_never_started_twice(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    wire.reply(hang_up, answer(200, RUNNING))
    with pytest.raises(ExecInterrupted, match="while the process ran"):
        flavour.run(sandbox.exec("make"))
    assert [request.method for request in wire.requests] == ["POST", "GET"]


def test_a_limit_bounds_the_wait(
    flavour: Flavour, wire: WireServer, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_wire, "GRACE", 0.2)

    def silent(_: socket.socket) -> None:
        wire.closing.wait()

    wire.reply(silent, answer(200, RUNNING))
    begun = time.monotonic()
    with pytest.raises(SandboxTimeout, match="cell was not answered in time") as caught:
        flavour.run(context.run_code("while True: pass", timeout=0.3))
    assert 0.4 < time.monotonic() - begun < 5
    assert caught.value.detail["execution_id"] == wire.requests[0].json["id"]
    assert wire.requests[0].json["timeout_seconds"] == 0.3


@pytest.mark.parametrize("options", [{}, {"timeout": 5}])
def test_the_clients_timeout_does_not_cut_a_cell(
    flavour: Flavour, wire: WireServer, options: dict[str, float]
) -> None:
    client = flavour.Client(wire.url, "key", timeout=0.1)
    context_json = {"id": "c1"}

    def slow(connection: socket.socket) -> None:
        threading.Event().wait(0.5)
        connection.sendall(answer(200, DONE))

    wire.reply(answer(201, context_json), slow)
    with flavour.using(client):
        sandbox = flavour.Sandbox.from_dict(RUNNING, client)
        context = flavour.run(sandbox.create_code_context())
        assert flavour.run(context.run_code("slow", **options)).stdout == "42\n"


def test_reading_is_repeated_when_the_connection_breaks(
    flavour: Flavour, wire: WireServer, client: Any
) -> None:
    wire.reply(hang_up, answer(200, {"items": [RUNNING]}))
    assert [one.id for one in flavour.run(client.sandboxes.list())] == ["s1"]


def test_a_create_that_is_lost_is_not_repeated(flavour: Flavour, wire: WireServer, client: Any) -> None:
    wire.reply(hang_up)
    with pytest.raises(ConnectionError) as caught:
        flavour.run(client.sandboxes.create())
    assert caught.value.code == "client.connection_lost"
    assert len(wire.requests) == 1


@pytest.mark.parametrize(
    "body",
    [b"<html>hello</html>", b"", b"null", b"[]", b'"s"', b"\xff\xfe", b"[" * 100_000, b'{"stdout": "x"}',
     b'{"exit_code": "0"}', b'{"exit_code": true}', b'{"exit_code": 0, "stdout": 3}'],
)  # fmt: skip
def test_an_answer_that_is_not_understood(
    flavour: Flavour, wire: WireServer, sandbox: Any, body: bytes
) -> None:
    wire.reply(answer(200, body))
    with pytest.raises(ServerError) as caught:
        flavour.run(sandbox.exec("true"))
    assert caught.value.code == "client.bad_answer"


def test_text_is_utf8_without_a_charset(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    text = "Å 日本 🐼 \x85 \u2028 \r\n"
    wire.reply(answer(200, {"exit_code": 0, "stdout": text, "stderr": None}))
    result = flavour.run(sandbox.exec("true"))
    assert (result.stdout, result.stderr) == (text, "")


def test_a_download_that_breaks_leaves_the_old_file(
    flavour: Flavour, wire: WireServer, sandbox: Any, tmp_path: Path
) -> None:
    local = tmp_path / "report.csv"
    local.write_text("old")

    def half(connection: socket.socket) -> None:
        connection.sendall(answer(200, b"new", {"Content-Length": "1000"}))
        hang_up(connection)

    wire.reply(half)
    with pytest.raises(ConnectionError, match="broke"):
        flavour.run(sandbox.filesystem.download("report.csv", local))
    assert local.read_text() == "old"
    assert list(tmp_path.glob("**/*.part")) == []


def test_a_refused_download_makes_no_file(
    flavour: Flavour, wire: WireServer, sandbox: Any, tmp_path: Path
) -> None:
    wire.reply(answer(404, {"error": "No file x.", "code": "file.not_found"}))
    with pytest.raises(NotFoundError, match=r"No file x\."):
        flavour.run(sandbox.filesystem.download("x", tmp_path / "x"))
    assert not (tmp_path / "x").exists()
