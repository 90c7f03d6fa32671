"""What unit and live tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.flavours import Flavour


@pytest.fixture(scope="module", params=["sync", "async"])
def flavour(request: pytest.FixtureRequest) -> Iterator[Flavour]:
    """Runs a test with the blocking classes and with the asyncio ones."""
    one = Flavour(request.param)
    yield one
    one.close()
