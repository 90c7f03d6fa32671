"""Our kernel and ipykernel as Jupyter's own client starts them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .client import PACKAGE_ROOT

OURS = "pandastack"
THEIRS = "python3"


@pytest.fixture(scope="module")
def kernelspecs() -> Iterator[None]:
    """Let Jupyter's client find our kernelspec and package in this checkout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(PACKAGE_ROOT / "share" / "jupyter"))
        patch.setenv("PYTHONPATH", str(PACKAGE_ROOT))
        yield
