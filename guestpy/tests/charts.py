"""What the tests of charts share: cells that draw, and the charts that came of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .client import KernelClient, Zygote

MIME = "application/vnd.pandastack.chart+json"
IMPORTS = """\
import datetime as dt
import matplotlib.pyplot as plt, numpy as np, pandas as pd
tips = pd.DataFrame({
    'day': ['Thu', 'Fri', 'Thu', 'Fri', 'Thu', 'Fri'],
    'sex': ['M', 'F', 'F', 'M', 'M', 'F'],
    'tip': [1.0, 2.0, 3.0, 4.0, 5.0, 9.0],
})
"""
SEABORN = "import seaborn as sns\n"
PLOTLY = "import plotly.express as px, plotly.graph_objects as go\nfrom plotly.subplots import make_subplots\n"
NAN = {"$numberDouble": "NaN"}


def drawing(
    zygote: Zygote, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KernelClient]:
    """A fixture: one kernel for a module, so that the libraries are imported once."""
    one = zygote.kernel(str(tmp_path_factory.mktemp("charts")))
    yield one
    one.close()


def charts(kernel: KernelClient, code: str) -> list[dict[str, Any]]:
    cell = kernel.run(IMPORTS + code)
    assert cell.error is None, cell.error
    assert cell.stdout + cell.stderr == ""
    for bundle in cell.bundles:
        pictures = {"image/png", "application/vnd.plotly.v1+json"}
        assert (MIME in bundle) <= bool(pictures & set(bundle))
    return [bundle[MIME] for bundle in cell.bundles if MIME in bundle]


def chart(kernel: KernelClient, code: str) -> dict[str, Any]:
    (one,) = charts(kernel, code)
    return one


def axes(kernel: KernelClient, code: str) -> dict[str, Any]:
    (one,) = chart(kernel, code)["axes"]
    return one


def series(kernel: KernelClient, code: str, *names: str) -> list[tuple[Any, ...]]:
    """Of each series the type, the label and the columns named."""
    return [
        (one["type"], one["label"], *(one[name] for name in names))
        for one in axes(kernel, code)["series"]
    ]


def box(category: Any, numbers: list[float], outliers: Any = ()) -> dict[str, Any]:
    names = ("min", "first_quartile", "median", "third_quartile", "max")
    described = {"category": category, **dict(zip(names, numbers, strict=True))}
    return {
        **described,
        "outliers": list(outliers),
        "outlier_count": len(outliers),
    }
