"""Trying several ways: what is chosen, what is left of the others, and what is refused at once."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import pytest

from pandastack import Candidate, ExploreError, PandastackError
from tests.flavours import Flavour
from tests.unit.wire_server import Request, WireServer, answer

DONE = {"exit_code": 0, "stdout": "out", "stderr": "err", "duration_ms": 5}


class Server:
    """Answers by what is asked, because the branches ask in no certain order.

    `runs` says what comes of a candidate's command.
    """

    def __init__(self, wire: WireServer, runs: dict[str, Any]) -> None:
        self.runs = runs
        self.copies = 0
        self.deleted: list[str] = []
        self.promoted: list[Any] = []
        self.ttl: dict[str, int] = {}
        self.busy = self.most = 0
        self.lock = threading.Lock()
        wire.respond = self.answer

    def answer(self, request: Request) -> bytes:
        sandbox, _, call = request.target.removeprefix("/v1/sandboxes/").partition("/")
        if call == "fork-tree":
            self.copies = self.copies or request.json["count"]
            children = [
                {"id": f"c{n}", "status": "running", "fork_tree_id": "t1"} for n in range(self.copies)
            ]
            return answer(201, {"tree_id": "t1", "children": children})
        if call == "lifecycle":
            self.ttl[sandbox] = request.json["ttl_seconds"]
            return answer(200, {"ttl_seconds": request.json["ttl_seconds"]})
        if call == "exec":
            return self.exec(request.json)
        if call == "promote":
            self.promoted.append((sandbox, request.json))
            siblings = [f"c{n}" for n in range(self.copies) if f"c{n}" != sandbox]
            gone = siblings if request.json["cleanup_siblings"] else []
            return answer(200, {"winner": sandbox, "tree_id": "t1", "deleted": gone, "failures": {}})
        assert (request.method, call) == ("DELETE", ""), request
        self.deleted.append(sandbox)
        return answer(204)

    def exec(self, body: dict[str, Any]) -> bytes:
        if body.get("argv", [""])[0] == "touch":
            return answer(200, {"exit_code": 0})
        if "cmd" not in body:
            return answer(200, {"exit_code": 0, "stdout": "/workspace/a\n/root/b\n"})
        with self.lock:
            self.busy += 1
            self.most = max(self.most, self.busy)
        time.sleep(0.01)  # room for another to begin
        result = self.runs[body["cmd"]]
        with self.lock:
            self.busy -= 1
        return answer(504, result) if "code" in result else answer(200, result)


def explore(
    flavour: Flavour, wire: WireServer, sandbox: Any, runs: dict[str, Any], *given: Any, **options: Any
) -> Any:
    server = Server(wire, runs)
    return server, flavour.run(sandbox.explore(list(given or runs), **options))


def test_the_best_one_stays(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    failed = {**DONE, "exit_code": 1, "stdout": "99"}
    runs = {"a": {**DONE, "stdout": "3"}, "b": {**DONE, "stdout": "9"}, "c": failed}
    seen: list[str] = []
    server, result = explore(
        flavour, wire, sandbox, runs,
        score_fn=lambda _, outcome: int(outcome.stdout_tail),
        on_outcome=lambda outcome: seen.append(outcome.label),
    )  # fmt: skip
    assert (result.winner.id, result.winner_outcome.label, result.tree_id) == ("c1", "b", "t1")
    assert [(o.label, o.ok, o.score, o.exit_code) for o in result.outcomes] == [
        ("b", True, 9.0, 0), ("a", True, 3.0, 0), ("c", False, 99.0, 1),
    ]  # fmt: skip
    assert result.winner_outcome.files_changed == ["/workspace/a", "/root/b"]
    assert server.promoted == [("c1", {"cleanup_siblings": True})]
    assert (result.reaped, result.reap_failures, server.deleted) == (["c0", "c2"], {}, [])
    assert (sorted(seen), [o.label for o in result.best(2)]) == (["a", "b", "c"], ["b", "a"])
    # The winner has the sandbox's time to live again, the others end by themselves.
    assert server.ttl == {"c0": 600, "c1": 0, "c2": 600}
    assert re.match(r"LABEL +OK +SCORE.*\nb +yes +9 +0 +5 +2\n", result.table())


@pytest.mark.parametrize(
    ("select", "winner"),
    [("max", "slow"), ("min", "quick"), (lambda outcomes: outcomes[-1], "tied")],
)
def test_select(flavour: Flavour, wire: WireServer, sandbox: Any, select: Any, winner: str) -> None:
    runs = {"tied": {**DONE, "duration_ms": 90}, "quick": {**DONE, "duration_ms": 10}, "slow": DONE}
    score = {"tied": 1.0, "quick": 1.0, "slow": 2.0}
    given = [Candidate(name, cmd=name, score=score[name]) for name in runs]
    _, result = explore(flavour, wire, sandbox, runs, *given, select=select)
    assert result.winner_outcome.label == winner


def test_one_bad_score_costs_its_branch_only(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    runs = {"a": {**DONE, "stdout": "no number"}, "b": {**DONE, "stdout": "1"}}
    _, result = explore(
        flavour, wire, sandbox, runs, select="min", score_fn=lambda _, outcome: int(outcome.stdout_tail)
    )
    assert result.winner_outcome.label == "b"
    assert result.errors == ["a: score_fn: ValueError: invalid literal for int() with base 10: 'no number'"]


def test_environment_and_limit_are_the_processs(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    given = Candidate.shell("x", "a && b", env={"K": "V"}, timeout_s=90)
    _, result = explore(flavour, wire, sandbox, {"a && b": DONE}, given, capture_files=False)
    bodies = [r.json for r in wire.requests if r.target.endswith("/exec")]
    assert bodies == [{"cmd": "a && b", "env": {"K": "V"}, "timeout_seconds": 90}]
    assert result.winner_outcome.files_changed == []


def test_a_timeout_keeps_its_output(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    late = {"error": "timeout", "code": "exec.timeout", "detail": {"stdout": "x" * 5000}}
    _, result = explore(flavour, wire, sandbox, {"a": late, "b": DONE})
    outcome = result.outcomes[1]
    assert (outcome.timed_out, outcome.exit_code, len(outcome.stdout_tail)) == (True, None, 4096)
    assert result.winner_outcome.label == "b"


def test_functions(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    def broken(_: Any) -> None:
        raise KeyError("x")

    given = [Candidate.call("id", lambda copy: copy.id), Candidate.call("broken", broken)]
    _, result = explore(flavour, wire, sandbox, {}, *given)
    assert (result.winner_outcome.value, result.outcomes[1].error) == ("c0", "KeyError: 'x'")


def test_nothing_succeeded(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    server = Server(wire, {"a": {**DONE, "exit_code": 1}, "b": {**DONE, "exit_code": 2}})
    with pytest.raises(ExploreError) as caught:
        flavour.run(sandbox.explore(["a", "b"]))
    assert isinstance(caught.value, PandastackError)
    assert [o.exit_code for o in caught.value.outcomes] == [1, 2]
    assert sorted(server.deleted) == ["c0", "c1"]
    _, result = explore(flavour, wire, sandbox, server.runs, require_success=False)
    assert result.winner_outcome.label == "a"


@pytest.mark.parametrize("what", ["callback", "fewer"])
def test_no_copy_is_left_when_it_fails(flavour: Flavour, wire: WireServer, sandbox: Any, what: str) -> None:
    server = Server(wire, {"a": DONE, "b": DONE})

    def fail(_: object) -> None:
        raise RuntimeError("mine")

    options: dict[str, Any] = {"on_outcome": fail} if what == "callback" else {}
    server.copies = 2 if what == "callback" else 1
    with pytest.raises(RuntimeError if what == "callback" else ExploreError):
        flavour.run(sandbox.explore(["a", "b"], **options))
    assert sorted(server.deleted) == [f"c{n}" for n in range(server.copies)]


@pytest.mark.parametrize(
    ("cleanup", "promote", "deleted", "promoted"),
    [(True, False, ["c1"], 0), (False, False, [], 0), (False, True, [], 1)],
)
def test_what_is_left(
    flavour: Flavour,
    wire: WireServer,
    sandbox: Any,
    cleanup: bool,
    promote: bool,
    deleted: list[str],
    promoted: int,
) -> None:
    runs = {"a": DONE, "b": {**DONE, "exit_code": 1}}
    server, result = explore(flavour, wire, sandbox, runs, cleanup_losers=cleanup, promote_winner=promote)
    assert (server.deleted, result.reaped, len(server.promoted)) == (deleted, deleted, promoted)


def test_at_most_so_many_run_at_once(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    server, _ = explore(flavour, wire, sandbox, {str(n): DONE for n in range(8)}, max_concurrency=1)
    assert (server.copies, server.most) == (8, 1)


@pytest.mark.parametrize(
    "given",
    [
        [], ["a"] * 17, [Candidate("x")], [Candidate("x", cmd="a", fn=print)],
        [Candidate("x", cmd="a", score="1")],  # type: ignore[arg-type]
        [Candidate("x", cmd="a", score=float("nan"))], [Candidate("x", cmd="a", timeout_s=0)],
    ],
)  # fmt: skip
def test_what_cannot_be_tried_is_said_before_anything_is_done(
    flavour: Flavour, wire: WireServer, sandbox: Any, given: Any
) -> None:
    with pytest.raises(ValueError, match="candidate"):
        flavour.run(sandbox.explore(given))
    for wrong in ({"select": "best"}, {"max_concurrency": 0}):
        with pytest.raises(ValueError, match=r"select|max_concurrency"):
            flavour.run(sandbox.explore(["a"], **wrong))
    assert wire.requests == []
