"""Cases are rows of a file; see runner.py for what they mean."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pandastack import Client, Sandbox

_SHARED = os.environ.get("PANDASTACK_SHARED")
# Seconds after which a sandbox of a test run that was killed is gone.
TTL = 3600


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", [pytest.param(case, id=case["id"]) for case in _load()])


def _load() -> list[dict[str, Any]]:
    if not _SHARED:
        return []  # pytest reports a skipped test for it
    text = (Path(_SHARED) / "cases" / "cases.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines() if line.strip()]


@pytest.fixture(scope="session")
def server() -> Iterator[Client]:
    """The server found as every program finds it. It must run."""
    with Client() as client:
        assert client.health().status == "ok"
        yield client


@pytest.fixture(scope="session")
def shared(server: Client) -> Iterator[Sandbox]:
    """A sandbox for the cases that leave its files and limits alone."""
    with Sandbox.create(ttl_seconds=TTL, client=server) as sandbox:
        yield sandbox


@pytest.fixture
def own(server: Client) -> Iterator[Sandbox]:
    """A sandbox for one case."""
    with Sandbox.create(ttl_seconds=TTL, client=server) as sandbox:
        yield sandbox
