"""Fixtures: the published client against the server that the environment names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from pandastack import Client, Sandbox
from pandastack.sandbox import CodeContext, set_default_client

# Seconds after which a sandbox of a test run that was killed is gone.
TTL = 1800


class Watched(Client):
    """Keeps the answers, because the client's errors carry no status or code."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.answers: list[Any] = []
        self.session.hooks["response"].append(lambda answer, *_, **__: self.answers.append(answer))

    @property
    def last(self) -> Any:
        return self.answers[-1]


def pytest_configure() -> None:
    for name in ("PANDASTACK_API", "PANDASTACK_API_KEY"):
        if not os.environ.get(name):
            pytest.exit(f"{name} is not set: these tests need a server", returncode=2)


@pytest.fixture(scope="session")
def client() -> Iterator[Watched]:
    # A busy machine under emulation is slow: the client's own 30 s cover starts too.
    watched = Watched(timeout=120.0)
    set_default_client(watched)
    yield watched
    set_default_client(None)


@pytest.fixture(scope="session")
def sandbox(client: Watched) -> Iterator[Sandbox]:
    with Sandbox.create(
        template="code-interpreter", metadata={"test": "published Å"}, ttl_seconds=TTL
    ) as one:
        yield one


@pytest.fixture(scope="session")
def context(sandbox: Sandbox) -> Iterator[CodeContext]:
    with sandbox.create_code_context() as one:
        yield one
