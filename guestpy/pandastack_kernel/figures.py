"""Figures of matplotlib and plotly as charts: one more MIME type beside the picture."""

from __future__ import annotations

from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from . import mplcharts, plotlycharts
from .charts import MIME, encode
from .display import add_format, quietly
from .importhooks import when_imported


def install(shell: InteractiveShell) -> None:
    """Add the chart to what shell shows of figures."""
    add_format(shell, MIME, {("matplotlib.figure", "Figure"): _of_matplotlib})
    when_imported("plotly.io._renderers", _watch_plotly)


def _of_matplotlib(figure: Any) -> Any:
    return encode(mplcharts.read(figure))


def _of_plotly(figure: Any) -> Any:
    return encode(plotlycharts.read(figure))


def _watch_plotly(renderers_module: Any) -> None:
    """Add the chart to every bundle, whichever renderers make it."""
    renderers = renderers_module.renderers
    build = renderers._build_mime_bundle

    def with_chart(fig_dict: Any, *args: Any, **kwargs: Any) -> Any:
        bundle = build(fig_dict, *args, **kwargs)
        chart = quietly(_of_plotly, fig_dict) if bundle else None
        return bundle if chart is None else {**bundle, MIME: chart}

    renderers._build_mime_bundle = with_chart
