"""Creating sandboxes: waiting for room, giving up, and ending them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from pandastack import (
    CapacityError,
    CreateCancelled,
    CreateRetryEvent,
    NotFoundError,
    ServerError,
)
from tests.flavours import Flavour
from tests.unit.wire_server import WireServer, answer

SANDBOX = {
    "id": "s1",
    "status": "running",
    "isolation": "emulated-vm+jail",
    "accelerator": "tcg",
    "start": {"kind": "restored", "total_ms": 93.5, "steps": [{"name": "qemu", "ms": 40}]},
}
FULL = answer(503, {"error": "No room.", "code": "sandbox.capacity"}, {"Retry-After": "0.01"})


@pytest.fixture(autouse=True)
def no_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pandastack._create_retry.random.uniform", lambda *_: 0.0)


def test_waits_for_room(flavour: Flavour, wire: WireServer) -> None:
    events: list[CreateRetryEvent] = []
    wire.reply(FULL, FULL, answer(201, SANDBOX))
    with flavour.using(flavour.Client(wire.url, "key", on_create_retry=events.append)) as client:
        sandbox = flavour.run(client.sandboxes.create())
    assert sandbox.id == "s1"
    assert [(event.attempt, event.status_code, event.retry_after_seconds) for event in events] == [
        (1, 503, 0.01),
        (2, 503, 0.01),
    ]


def test_no_budget_no_wait(flavour: Flavour, wire: WireServer) -> None:
    wire.reply(FULL)
    client = flavour.Client(wire.url, "key", max_create_retry_seconds=0)
    with flavour.using(client), pytest.raises(CapacityError, match="No room"):
        flavour.run(client.sandboxes.create())


def test_a_wait_beyond_the_budget_is_not_begun(flavour: Flavour, wire: WireServer, client: Any) -> None:
    wire.reply(answer(503, {"error": "No room.", "code": "sandbox.capacity"}, {"Retry-After": "3600"}))
    with pytest.raises(CapacityError) as caught:
        flavour.run(client.sandboxes.create())
    assert caught.value.retry_after == 3600


@pytest.mark.parametrize("status", [500, 502, 503])
def test_other_failures_are_raised_at_once(
    flavour: Flavour, wire: WireServer, client: Any, status: int
) -> None:
    wire.reply(answer(status, {"error": "Broken.", "code": "internal"}))
    with pytest.raises(ServerError, match="Broken"):
        flavour.run(client.sandboxes.create())
    assert len(wire.requests) == 1


def test_cancel(flavour: Flavour, wire: WireServer) -> None:
    cancel: Any = asyncio.Event() if flavour.name == "async" else threading.Event()
    wire.reply(answer(503, {"error": "No room.", "code": "sandbox.capacity"}, {"Retry-After": "30"}))

    def stop(_: CreateRetryEvent) -> None:
        cancel.set()

    client = flavour.Client(wire.url, "key", on_create_retry=stop)
    with flavour.using(client), pytest.raises(CreateCancelled) as caught:
        flavour.run(client.sandboxes.create(cancel=cancel))
    assert isinstance(caught.value.__cause__, CapacityError)


def test_what_is_sent_and_read(flavour: Flavour, wire: WireServer, client: Any) -> None:
    wire.reply(answer(201, SANDBOX))
    sandbox = flavour.run(client.sandboxes.create(metadata={"a": "ä"}, ttl_seconds=60, env={"K": "V"}))
    request = wire.requests[0]
    assert (request.method, request.target) == ("POST", "/v1/sandboxes")
    assert request.headers["authorization"] == "Bearer key"
    assert request.headers["user-agent"].startswith("pandastack-python/")
    assert request.json == {
        "template": "code-interpreter", "metadata": {"a": "ä"}, "ttl_seconds": 60, "env": {"K": "V"},
    }  # fmt: skip
    assert (sandbox.isolation, sandbox.accelerator) == ("emulated-vm+jail", "tcg")
    assert (sandbox.start.kind, sandbox.start.total_ms, sandbox.start.steps[0].name) == (
        "restored", 93.5, "qemu",
    )  # fmt: skip


def test_a_subclass_gets_its_own(flavour: Flavour, wire: WireServer, client: Any) -> None:
    mine: Any = type("Mine", (flavour.Sandbox,), {})
    wire.reply(answer(201, SANDBOX), answer(200, SANDBOX), answer(200, {"items": [SANDBOX]}))
    assert type(flavour.run(mine.create(client=client))) is mine
    assert type(flavour.run(mine.get("s1", client=client))) is mine
    assert type(flavour.run(mine.list(client=client))[0]) is mine


def test_with_deletes(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    wire.reply(answer(204))
    with flavour.using(sandbox):
        pass
    assert [(r.method, r.target) for r in wire.requests] == [("DELETE", "/v1/sandboxes/s1")]


def test_with_leaves_a_persistent_one_alive_even_after_refresh(
    flavour: Flavour, wire: WireServer, client: Any
) -> None:
    sandbox = flavour.Sandbox.from_dict(SANDBOX, client, persistent=True)
    wire.reply(answer(200, SANDBOX))
    with flavour.using(sandbox):
        flavour.run(sandbox.refresh())
    assert [request.method for request in wire.requests] == ["GET"]


def test_a_failing_delete_does_not_hide_the_bodys_error(
    flavour: Flavour, wire: WireServer, sandbox: Any
) -> None:
    wire.reply(answer(500, {"error": "Broken."}))
    with pytest.raises(KeyError), flavour.using(sandbox):
        raise KeyError("mine")


def test_a_failing_delete_is_raised(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    wire.reply(answer(500, {"error": "Broken."}))
    with pytest.raises(ServerError, match="Broken"), flavour.using(sandbox):
        pass


def test_killing_what_is_gone(flavour: Flavour, wire: WireServer, sandbox: Any, client: Any) -> None:
    gone = answer(404, {"error": "No sandbox.", "code": "sandbox.not_found"})
    wire.reply(gone, gone)
    flavour.run(sandbox.kill())
    with pytest.raises(NotFoundError):
        flavour.run(client.sandboxes.delete("s1"))


def test_a_size_is_asked_for(flavour: Flavour, wire: WireServer, client: Any) -> None:
    wire.reply(answer(201, {**SANDBOX, "cpu": 2, "memory_mb": 512}), answer(201, SANDBOX))
    sandbox = flavour.run(flavour.Sandbox.create(cpu=2, memory_mb=512, client=client))
    assert wire.requests[0].json == {"template": "code-interpreter", "cpu": 2, "memory_mb": 512}
    assert (sandbox.cpu, sandbox.memory_mb) == (2, 512)
    flavour.run(client.sandboxes.create("base", 1, 256))
    assert wire.requests[1].json == {"template": "base", "cpu": 1, "memory_mb": 256}
