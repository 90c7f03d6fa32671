"""Sandboxes that stand still, sleep, are saved and copied, with their variables."""

from __future__ import annotations

from typing import Any

import pytest

from pandastack import Candidate, Client, CodeContext, ConflictError, NotFoundError, Sandbox
from tests.flavours import Flavour
from tests.live.conftest import TTL


def test_variables_survive_every_rest(flavour: Flavour, either: Any) -> None:
    context = flavour.run(either.create_code_context())
    flavour.run(context.run_code("kept = 41"))
    flavour.run(either.pause())
    assert either.status == "paused"
    with pytest.raises(ConflictError) as caught:
        flavour.run(either.exec("true"))
    assert caught.value.code == "sandbox.paused"
    flavour.run(either.resume())
    flavour.run(either.hibernate())
    assert flavour.run(either.refresh()).status == "hibernated"
    assert flavour.run(context.run_code("kept += 1; kept")).text == "42"  # which wakes it
    flavour.run(either.hibernate())
    flavour.run(either.wake())
    assert (either.status, flavour.run(context.run_code("kept")).text) == ("running", "42")


def test_a_snapshot_and_what_is_made_from_it(sandbox: Sandbox, context: CodeContext) -> None:
    context.run_code("saved = 1")
    taken = sandbox.snapshot("live-test", metadata={"why": "test"})
    context.run_code("saved = 2")
    with Client() as client:
        listed = client.snapshots.list(sandbox_id=sandbox.id)
        assert [(one["id"], one["name"], one["metadata"]["why"]) for one in listed] == [
            (taken, "live-test", "test")
        ]
        with Sandbox.create(from_snapshot="live-test", ttl_seconds=TTL) as made:
            assert (made.from_snapshot, made.template) == (taken, sandbox.template)
            assert made.context(context.id).run_code("saved").text == "1"
        client.snapshots.delete(taken)
        with pytest.raises(NotFoundError) as caught:
            client.snapshots.get("live-test")
    assert caught.value.code == "snapshot.not_found"
    assert context.run_code("saved").text == "2"


def test_copies_differ_where_they_must(sandbox: Sandbox, context: CodeContext) -> None:
    context.run_code("import secrets; same = 7")
    children = sandbox.fork_tree(2, {"copy": "yes"})
    try:
        contexts = [child.context(context.id) for child in children]
        cells = [one.run_code("same, secrets.token_hex(16)").text for one in (context, *contexts)]
        assert all(text is not None and text.startswith("(7, ") for text in cells)
        assert len(set(cells)) == 3
        assert {child.fork_parent_id for child in children} == {sandbox.id}
        assert children[0].metadata["copy"] == "yes"
        promoted = children[0].promote(cleanup_siblings=True)
        assert promoted["deleted"] == [children[1].id]
    finally:
        for child in children:
            child.kill()


def test_explore(flavour: Flavour, either: Any) -> None:
    ways = ["echo 1 | tee /workspace/tried", Candidate.shell("more", "echo $N", env={"N": "9"}), "exit 3"]
    result = flavour.run(either.explore(ways, score_fn=lambda _, outcome: float(outcome.stdout_tail or 0)))
    try:
        assert [(o.label, o.ok, o.score) for o in result.outcomes] == [
            ("more", True, 9.0), ("echo 1 | tee /workspace/tried", True, 1.0), ("exit 3", False, 0.0),
        ]  # fmt: skip
        assert result.outcomes[1].files_changed == ["/workspace/tried"]
        assert len(result.reaped) == 2
        assert not flavour.run(either.filesystem.exists("/workspace/tried"))
    finally:
        flavour.run(result.winner.kill())
