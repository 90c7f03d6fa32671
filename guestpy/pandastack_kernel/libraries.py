"""Set-up of plotting libraries for a kernel without a screen."""

from __future__ import annotations

import os
from types import ModuleType, SimpleNamespace
from typing import Any

from .importhooks import when_imported

_INLINE = "module://matplotlib_inline.backend_inline"

# Each covers Chinese, Japanese and Korean. Of a font collection matplotlib
# knows the first face only, so one name of Noto's is found.
_CJK_FONTS = (
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans CJK KR",
    "Noto Sans CJK TC",
    "Source Han Sans",
    "WenQuanYi Zen Hei",
)


def install() -> None:
    """Takes effect when user code imports the libraries."""
    when_imported("matplotlib", _set_up_matplotlib)
    when_imported("matplotlib.font_manager", _add_fallback_fonts)
    when_imported("plotly.io._renderers", _set_up_plotly)


def _set_up_matplotlib(matplotlib: ModuleType) -> None:
    # Not by MPLBACKEND: child processes would inherit it.
    if not os.environ.get("MPLBACKEND"):
        matplotlib.rcParams["backend"] = _INLINE


def _add_fallback_fonts(font_manager: Any) -> None:
    """Let glyphs the default font lacks come from an installed CJK font."""
    import matplotlib  # type: ignore[import-untyped,import-not-found,unused-ignore]

    known = {entry.name for entry in font_manager.fontManager.ttflist}
    family = next((name for name in _CJK_FONTS if name in known), None)
    if family is None:
        return
    for params in (matplotlib.rcParams, matplotlib.rcParamsDefault):
        if list(params["font.family"]) == ["sans-serif"]:
            params["font.family"] = ["sans-serif", family]


def _set_up_plotly(renderers_module: Any) -> None:
    """Figures as plotly's JSON and as HTML that loads the library by URL."""
    from plotly.io._base_renderers import HtmlRenderer  # type: ignore

    renderers = renderers_module.renderers
    renderers["pandastack"] = HtmlRenderer(connected=True)
    if not os.environ.get("PLOTLY_RENDERER"):
        renderers.default = "plotly_mimetype+pandastack"
    if renderers_module.nbformat is None:
        # fig.show() refuses to work without nbformat, of which it uses nothing
        # but the version.
        renderers_module.nbformat = SimpleNamespace(__version__="5.0.0")
