"""Pausing, hibernating, snapshots and copies: what is sent and what is made of the answers."""

from __future__ import annotations

import inspect
import time
from typing import Any

import pytest

from pandastack import CapacityError, ConflictError, CreateRetryEvent, NotFoundError, ServerError
from tests.flavours import Flavour
from tests.unit.wire_server import WireServer, answer

BOX = {"id": "s1", "template": "base", "status": "running", "cpu": 2, "memory_mb": 256}
CHILD = {**BOX, "id": "s2", "fork_parent_id": "s1", "fork_tree_id": "t1"}
SNAPSHOT = {
    "id": "n1", "name": "ready", "sandbox_id": "s1", "template": "base", "created_at": "2026-01-02T03:04:05Z",
    "cpu": 1, "memory_mb": 512, "metadata": {}, "memory_bytes": 7, "disk_bytes": 8, "pause_ms": 9.5,
    "total_ms": 20,
}  # fmt: skip
PATH = "/v1/sandboxes/s1"


def sent(wire: WireServer) -> list[tuple[str, str, Any]]:
    return [(r.method, r.target, r.json if r.body else None) for r in wire.requests]


@pytest.mark.parametrize(
    ("call", "status", "request_"),
    [
        (lambda s: s.pause(), "paused", ("pause", None)),
        (lambda s: s.resume(), "running", ("resume", None)),
        (lambda s: s.hibernate(), "hibernated", ("hibernate", None)),
        (lambda s: s.wake(), "running", ("wake", None)),
        (lambda s: s.wake(from_disk=True), "running", ("wake", {"from": "disk"})),
    ],
)
def test_states(
    flavour: Flavour, wire: WireServer, sandbox: Any, call: Any, status: str, request_: tuple[str, Any]
) -> None:
    wire.reply(answer(200, {**BOX, "status": status}))
    assert flavour.run(call(sandbox)) is None
    assert sandbox.status == status
    assert sent(wire) == [("POST", f"{PATH}/{request_[0]}", request_[1])]


def test_what_was_lost(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    wire.reply(answer(200, {**BOX, "start": {"kind": "booted", "lost": "memory"}}))
    flavour.run(sandbox.wake(from_disk=True))
    assert (sandbox.start.kind, sandbox.start.lost) == ("booted", "memory")


def test_memory_may_take_longer_than_a_call_may_be_silent(flavour: Flavour, wire: WireServer) -> None:
    def late(connection: Any) -> None:
        time.sleep(0.5)
        connection.sendall(answer(200, {**BOX, "status": "hibernated"}))

    with flavour.using(flavour.Client(wire.url, "key", timeout=0.1)) as client:
        sandbox = flavour.Sandbox.from_dict(BOX, client)
        wire.reply(late)
        flavour.run(sandbox.hibernate())
    assert sandbox.status == "hibernated"


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("sandbox.paused", 409, ConflictError),
        ("sandbox.busy", 409, ConflictError),
        ("snapshot.host_mismatch", 409, ConflictError),
        ("snapshot.damaged", 500, ServerError),
        ("snapshot.not_found", 404, NotFoundError),
    ],
)
def test_refusals(
    flavour: Flavour, wire: WireServer, sandbox: Any, code: str, status: int, kind: type[Exception]
) -> None:
    wire.reply(answer(status, {"error": "No.", "code": code}))
    with pytest.raises(kind) as caught:
        flavour.run(sandbox.wake())
    assert caught.value.code == code  # type: ignore[attr-defined]


def test_snapshot(flavour: Flavour, wire: WireServer, sandbox: Any, client: Any) -> None:
    wire.reply(answer(201, SNAPSHOT), answer(201, SNAPSHOT), answer(201, {**BOX, "from_snapshot": "n1"}))
    flavour.run(sandbox.snapshot())
    taken = flavour.run(sandbox.snapshot("ready", metadata={"k": "v"}))
    assert (taken, taken.snapshot["name"], taken.snapshot["pause_ms"]) == ("n1", "ready", 9.5)
    made = flavour.run(flavour.Sandbox.create(from_snapshot=taken, client=client))
    assert (made.from_snapshot, made.template) == ("n1", "base")
    assert sent(wire) == [
        ("POST", f"{PATH}/snapshots", None),
        ("POST", f"{PATH}/snapshots", {"name": "ready", "metadata": {"k": "v"}}),
        ("POST", "/v1/sandboxes", {"from_snapshot": "n1"}),
    ]


def test_the_list_of_snapshots(flavour: Flavour, wire: WireServer, client: Any) -> None:
    wire.reply(
        answer(200, {"items": [SNAPSHOT]}), answer(200, {"items": []}), answer(200, SNAPSHOT), answer(204)
    )
    assert flavour.run(client.snapshots.list()) == [SNAPSHOT]
    assert flavour.run(client.snapshots.list(sandbox_id="s/1")) == []
    assert flavour.run(client.snapshots.get("ready"))["id"] == "n1"
    flavour.run(client.snapshots.delete("a/b"))
    assert sent(wire) == [
        ("GET", "/v1/snapshots", None),
        ("GET", "/v1/snapshots?sandbox_id=s%2F1", None),
        ("GET", "/v1/snapshots/ready", None),
        ("DELETE", "/v1/snapshots/a%2Fb", None),
    ]


def test_copies(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    tree = {"tree_id": "t1", "children": [CHILD, {**CHILD, "id": "s3"}]}
    wire.reply(answer(201, {"sandbox": CHILD}), answer(201, tree))
    child = flavour.run(sandbox.fork())
    assert (child.id, child.template, child.cpu, child.memory_mb, child.fork_parent_id) == (
        "s2",
        "base",
        2,
        256,
        "s1",
    )
    children = flavour.run(sandbox.fork_tree(2, {"b": "2"}))
    assert [(c.id, c.fork_tree_id, type(c)) for c in children] == [
        ("s2", "t1", flavour.Sandbox), ("s3", "t1", flavour.Sandbox),
    ]  # fmt: skip
    assert sent(wire) == [
        ("POST", f"{PATH}/fork", None),
        ("POST", f"{PATH}/fork-tree", {"count": 2, "metadata": {"b": "2"}}),
    ]


@pytest.mark.parametrize("body", [{}, {"sandbox": "s2"}, {"sandbox": {}}, None])
def test_what_is_no_copy(flavour: Flavour, wire: WireServer, sandbox: Any, body: Any) -> None:
    wire.reply(answer(201, body))
    with pytest.raises(ServerError, match="not understood"):
        flavour.run(sandbox.fork())


def test_copies_wait_for_room(flavour: Flavour, wire: WireServer) -> None:
    events: list[CreateRetryEvent] = []
    full = answer(503, {"error": "No room.", "code": "sandbox.capacity"}, {"Retry-After": "0"})
    wire.reply(full, answer(201, {"sandbox": CHILD}), full)
    with flavour.using(flavour.Client(wire.url, "key", on_create_retry=events.append)) as client:
        sandbox = flavour.Sandbox.from_dict(BOX, client)
        assert flavour.run(sandbox.fork(timeout=30)).id == "s2"
        client.max_create_retry_seconds = 0.0
        with pytest.raises(CapacityError):
            flavour.run(sandbox.fork_tree(2))
    assert [event.path for event in events] == [f"{PATH}/fork"]


def test_promote(flavour: Flavour, wire: WireServer, sandbox: Any, client: Any) -> None:
    said = {"winner": "s1", "tree_id": "t1", "deleted": ["s2"], "failures": {"s3": "busy"}}
    wire.reply(answer(200, said), answer(200, BOX), answer(200, {"winner": "s1"}))
    assert flavour.run(sandbox.promote(cleanup_siblings=True, tree_id="t1")) == said
    assert flavour.run(client.sandboxes.promote("s1")) == {
        "winner": "s1", "tree_id": "", "deleted": [], "failures": {},
    }  # fmt: skip
    assert sent(wire) == [
        ("POST", f"{PATH}/promote", {"cleanup_siblings": True, "tree_id": "t1"}),
        ("GET", PATH, None),
        ("POST", f"{PATH}/promote", {"cleanup_siblings": False}),
    ]


def test_idle_time(flavour: Flavour, wire: WireServer, sandbox: Any, client: Any) -> None:
    life = {"ttl_seconds": 0, "persistent": False, "idle_seconds": 1.5, "idle_timeout_seconds": 60,
            "on_timeout": "hibernate", "auto_wake": False}  # fmt: skip
    wire.reply(answer(200, life), answer(200, life), answer(201, BOX))
    assert flavour.run(sandbox.set_idle_timeout(60, "hibernate")) == {**life, "expires_at": ""}
    flavour.run(sandbox.set_lifecycle(idle_timeout_seconds=0, auto_wake=False))
    flavour.run(client.sandboxes.create(idle_timeout_seconds=60, on_timeout="hibernate", auto_wake=False))
    assert [body for _, _, body in sent(wire)] == [
        {"idle_timeout_seconds": 60, "on_timeout": "hibernate"},
        {"idle_timeout_seconds": 0, "auto_wake": False},
        {
            "template": "code-interpreter", "idle_timeout_seconds": 60, "on_timeout": "hibernate",
            "auto_wake": False,
        },
    ]  # fmt: skip


def test_the_published_signatures_still_work(flavour: Flavour, sandbox: Any, client: Any) -> None:
    for method, published in (
        (sandbox.fork, "metadata cancel"),
        (sandbox.fork_tree, "count metadata cancel"),
        (sandbox.promote, "cleanup_siblings tree_id"),
        (sandbox.snapshot, ""),
        (sandbox.hibernate, ""),
        (client.sandboxes.fork, "sandbox_id metadata cancel"),
        (client.sandboxes.fork_tree, "sandbox_id count metadata cancel"),
        (client.sandboxes.promote, "sandbox_id cleanup_siblings tree_id"),
        (client.snapshots.list, "sandbox_id"),
        (client.snapshots.get, "snapshot_id"),
        (client.snapshots.delete, "snapshot_id"),
    ):
        assert set(published.split()) <= set(inspect.signature(method).parameters)
