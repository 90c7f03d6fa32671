"""Fixtures of the tests against a real server, found as every program finds it.

Sandboxes are shared by the tests of a module: under emulation each costs seconds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pandastack import Client, CodeContext, Sandbox, _discovery
from tests.flavours import Flavour

# Seconds after which a sandbox of a test run that was killed is gone.
TTL = 3600


@pytest.fixture(scope="session", autouse=True)
def server() -> _discovery.Endpoint:
    """A server that was named or found, and answers. Only where there is none, the tests are skipped."""
    endpoint = _discovery.find()
    if not endpoint.url:
        pytest.skip("no PandaStack server runs here and PANDASTACK_API names none")
    with Client() as client:
        assert client.health().status == "ok"
    return endpoint


@pytest.fixture(scope="module")
def sandbox(server: _discovery.Endpoint) -> Iterator[Sandbox]:
    with Sandbox.create(ttl_seconds=TTL) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def context(sandbox: Sandbox) -> Iterator[CodeContext]:
    with sandbox.create_code_context() as context:
        yield context


@pytest.fixture(scope="module")
def either(server: _discovery.Endpoint, flavour: Flavour) -> Iterator[Any]:
    """A sandbox of either flavour."""
    with flavour.using(flavour.run(flavour.Sandbox.create(ttl_seconds=TTL))) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder with public data files."""
    folder = os.environ.get("PANDASTACK_SHARED")
    if not folder:
        pytest.skip("PANDASTACK_SHARED names no folder")
    return Path(folder) / "data"
