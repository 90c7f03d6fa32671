"""Fixtures: one warmed zygote for all tests, a fresh kernel for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .client import KernelClient, Zygote
from .jupyter import kernelspecs  # noqa: F401, a fixture

WARM_CELLS = [
    "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nprint('warm')",
    "import pandas as pd\nleft_behind = pd.DataFrame({'a': [1]})\nleft_behind",
    "import plotly.graph_objects as go\ngo.Figure()",
]


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    one = Zygote()
    answer = one.ask(
        {"op": "warm", "imports": ["pandas", "plotly"], "cells": WARM_CELLS}
    )
    assert answer["ok"], answer
    assert answer["errors"] == []
    yield one
    one.close()


@pytest.fixture
def kernel(zygote: Zygote, tmp_path: Path) -> Iterator[KernelClient]:
    one = zygote.kernel(str(tmp_path))
    yield one
    one.close()
