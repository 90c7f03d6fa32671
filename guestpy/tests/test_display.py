"""MIME bundles: tables, charts, rich display, comms."""

from __future__ import annotations

import struct

from .client import Cell, KernelClient


def png_size(data: bytes) -> tuple[int, int]:
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_dataframe_is_html_and_text(kernel: KernelClient) -> None:
    cell = kernel.run("import pandas as pd; pd.DataFrame({'a': [1, 2]})")
    (result,) = cell.of("execute_result")
    assert {"text/html", "text/plain"} <= set(result["data"])
    assert "<table" in result["data"]["text/html"]


def test_figures_in_order_and_none_twice(kernel: KernelClient) -> None:
    cell = kernel.run(
        "import matplotlib.pyplot as plt\n"
        "for n in (2, 3, 4):\n"
        "    plt.figure(figsize=(n, 2)); plt.plot([1, 2]); plt.show(); print(n)\n"
        "plt.figure(figsize=(5, 2)); plt.plot([1])\n"
        "closed = plt.figure(figsize=(9, 9)); plt.close(closed)\n"
        "None"
    )
    widths = [png_size(p)[0] for p in cell.pngs]
    assert len(widths) == 4
    assert widths == sorted(widths)
    shown = [t for t in cell.types if t in ("display_data", "stream")]
    assert shown == ["display_data", "stream"] * 3 + ["display_data"]
    assert kernel.run("plt.get_fignums()").pngs == []


def test_inline_magic_changes_nothing(kernel: KernelClient) -> None:
    kernel.run("%matplotlib inline\nimport matplotlib.pyplot as plt")
    assert len(kernel.run("plt.plot([1, 2])").pngs) == 1
    cell = kernel.run("%matplotlib qt")
    assert cell.status == "error"
    assert len(kernel.run("plt.plot([1, 2]); plt.show()").pngs) == 1


def test_figure_metadata_and_text(kernel: KernelClient) -> None:
    cell = kernel.run("import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nfig")
    assert "Figure" in cell.text
    assert 1 <= len(cell.pngs) <= 2


def test_plotly_without_the_library(kernel: KernelClient) -> None:
    kernel.run(
        "import plotly.graph_objects as go\nfig = go.Figure(go.Scatter(y=[1, 3, 2]))"
    )
    for code in ("fig.show()", "fig", "display(fig)"):
        (bundle,) = kernel.run(code).bundles
        assert bundle["application/vnd.plotly.v1+json"]["data"][0]["type"] == "scatter"
        html = bundle["text/html"]
        assert "cdn.plot.ly" in html
        assert len(html) < 200_000


def test_display_id_update_and_clear(kernel: KernelClient) -> None:
    cell = kernel.run(
        "from IPython.display import clear_output\n"
        "h = display('one', display_id='d1'); h.update('two'); clear_output(wait=True)"
    )
    (shown,) = cell.of("display_data")
    (updated,) = cell.of("update_display_data")
    assert shown["transient"] == updated["transient"] == {"display_id": "d1"}
    assert updated["data"]["text/plain"] == "'two'"
    assert cell.of("clear_output") == [{"wait": True}]


def test_strict_json(kernel: KernelClient) -> None:
    cell = kernel.run(
        "import numpy as np\n"
        "display({'application/json': {'n': float('nan'), 'i': [float('inf')],"
        " 'np': np.arange(2), 'o': object, 'k': {(1, 2): {3}}}}, raw=True)"
    )
    value = cell.bundles[0]["application/json"]
    assert value["n"] is None
    assert value["i"] == [None]
    assert value["np"] == [0, 1]
    assert value["k"] == {"(1, 2)": [3]}


def test_bytes_are_base64(kernel: KernelClient) -> None:
    cell = kernel.run(
        "class P:\n    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n'\nP()"
    )
    assert cell.pngs == [b"\x89PNG\r\n\x1a\n"]


def test_huge_values_are_cut_and_said(kernel: KernelClient) -> None:
    cell = kernel.run("'q' * 100_000_000")
    (result,) = cell.of("execute_result")
    assert result["metadata"]["pandastack"]["truncated"]["text/plain"] > 100_000_000
    assert len(result["data"]["text/plain"]) < 100_000
    cell = kernel.run(
        "display({'text/html': 'h' * 30_000_000, 'text/plain': 'small'}, raw=True)"
    )
    (shown,) = cell.of("display_data")
    assert set(shown["data"]) == {"text/plain"}
    assert "text/html" in shown["data"]["text/plain"]
    cell = kernel.run("raise ValueError('e' * 50_000_000)")
    assert cell.error["ename"] == "ValueError"
    assert kernel.run("1").text == "1"


def test_broken_repr(kernel: KernelClient) -> None:
    cell = kernel.run(
        "class B:\n    def _repr_html_(self): raise ValueError('no html')\n"
        "    def __repr__(self): return 'plain B'\nB()"
    )
    assert cell.text == "plain B"
    assert cell.error["ename"] == "ValueError"
    cell = kernel.run("class C:\n    def __repr__(self): 1/0\nC()")
    assert cell.error["ename"] == "ZeroDivisionError"


def test_widgets_open_comms(kernel: KernelClient) -> None:
    cell: Cell = kernel.run("import ipywidgets as w; s = w.IntSlider(value=3); s")
    opened = cell.of("comm_open")
    assert all(m["target_name"] == "jupyter.widget" for m in opened)
    (result,) = cell.of("display_data", "execute_result")
    assert "application/vnd.jupyter.widget-view+json" in result["data"]
    assert "IntSlider" in result["data"]["text/plain"]
    comm_id = kernel.run("s.comm.comm_id").text.strip("'")
    assert comm_id in kernel.ask("comm_info_request", {})["comms"]
    data = {"method": "update", "state": {"value": 8}, "buffer_paths": []}
    kernel.until_idle(kernel.send("comm_msg", {"comm_id": comm_id, "data": data}))
    assert kernel.run("s.value").text == "8"


def test_warm_up_leaves_rich_output_working_lazily(kernel: KernelClient) -> None:
    cell = kernel.run(
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c',"
        " 'import matplotlib; print(matplotlib.get_backend())'],"
        " capture_output=True, text=True).stdout"
    )
    assert "inline" not in cell.text
