"""Fixtures of the tests against fixed bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.flavours import Flavour
from tests.unit.wire_server import WireServer, answer

SANDBOX = {"id": "s1", "template": "code-interpreter", "status": "running"}
CONTEXT = {"id": "c1", "sandbox_id": "s1", "language": "python"}


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No server, key or config of this machine is seen."""
    for name in ("PANDASTACK_API", "PANDASTACK_API_KEY", "PANDASTACK_MAX_CREATE_RETRY_SECONDS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PANDASTACK_DATA_DIR", str(tmp_path / "data"))


@pytest.fixture
def wire() -> Iterator[WireServer]:
    server = WireServer()
    yield server
    server.close()


@pytest.fixture
def client(flavour: Flavour, wire: WireServer) -> Iterator[Any]:
    client = flavour.Client(wire.url, "key")
    yield client
    flavour.run(client.aclose() if flavour.name == "async" else client.close())


@pytest.fixture
def sandbox(flavour: Flavour, client: Any) -> Any:
    return flavour.Sandbox.from_dict(SANDBOX, client)


@pytest.fixture
def context(flavour: Flavour, wire: WireServer, sandbox: Any) -> Any:
    wire.reply(answer(201, CONTEXT))
    context = flavour.run(sandbox.create_code_context())
    wire.requests.clear()
    return context
