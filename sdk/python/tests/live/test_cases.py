"""Runs sdk/cases/*.json with both flavours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import pytest

from pandastack import Execution, PandastackError
from tests.flavours import Flavour

CASES = sorted((Path(__file__).parents[3] / "cases").glob("*.json"))
VERBS = ("cell", "exec", "run", "read", "stat")


@pytest.fixture
def context(flavour: Flavour, either: Any) -> Iterator[Any]:
    with flavour.using(flavour.run(either.create_code_context())) as context:
        yield context


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(flavour: Flavour, either: Any, context: Any, path: Path) -> None:
    case = json.loads(path.read_text(encoding="utf-8"))
    for name, text in case.get("files", {}).items():
        flavour.run(either.filesystem.write(f"/workspace/{name}", text))
    assert case["steps"]
    for step in case["steps"]:
        expected = step["expect"]
        seen = observe(flavour, either, context, step)
        wrong = {k: (seen.get(k), v) for k, v in expected.items() if not matches(k, seen.get(k), v)}
        assert not wrong, f"{step}: (seen, expected) {wrong}"


def observe(flavour: Flavour, sandbox: Any, context: Any, step: dict[str, Any]) -> dict[str, Any]:
    """What the step's call gave, by the names of the wire."""
    (verb,) = (verb for verb in VERBS if verb in step)
    options = {k: v for k, v in step.items() if k not in (verb, "expect")}
    calls = {
        "cell": context.run_code,
        "exec": sandbox.exec,
        "run": sandbox.run_code,
        "read": sandbox.filesystem.read,
        "stat": sandbox.filesystem.stat,
    }
    try:
        answer = flavour.run(calls[verb](step[verb], **options))
    except PandastackError as error:
        return {"raises": error.code}
    if isinstance(answer, bytes):
        return {"content": answer.decode("utf-8")}
    return of_execution(answer) if isinstance(answer, Execution) else vars(answer)


def of_execution(ex: Execution) -> dict[str, Any]:
    return {
        **vars(ex),
        "text": ex.text,
        "json": ex.json,
        "formats": [set(result.formats()) for result in ex.results],
        "error": ex.error.name if ex.error else None,
        "error_value": ex.error.value if ex.error else None,
    }


def matches(name: str, seen: Any, expected: Any) -> bool:
    if name == "formats":
        return len(seen) == len(expected) and all(set(e) <= s for s, e in zip(seen, expected))
    part = contained(expected)
    if part is not None:
        return isinstance(seen, str) and part in seen
    return bool(seen == expected)


def contained(expected: object) -> Optional[str]:
    if isinstance(expected, str) and len(expected) > 2 and expected[0] == expected[-1] == "…":
        return expected[1:-1]
    return None
