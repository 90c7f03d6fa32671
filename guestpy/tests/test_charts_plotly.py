"""Figures of plotly as charts: the same schema, and the same values."""

from __future__ import annotations

import pytest

from .charts import (
    IMPORTS,
    MIME,
    NAN,
    PLOTLY,
    axes,
    box,
    chart,
    charts,
    drawing,
    series,
)
from .client import KernelClient

kernel = pytest.fixture(scope="module")(drawing)


def test_plotly_however_it_is_shown(kernel: KernelClient) -> None:
    code = (
        PLOTLY + "fig = px.line(tips, y='tip', title='T', labels={'tip': 'Tip ($)'})\n"
    )
    for way in ("fig.show()", "fig", "display(fig)", "fig.show('notebook_connected')"):
        cell = kernel.run(IMPORTS + code + way)
        (one,) = (bundle[MIME] for bundle in cell.bundles if MIME in bundle)
        assert one["title"] == "T"
        (seen,) = one["axes"]
        assert seen["y"] == {"label": "Tip ($)", "unit": "$", "scale": "linear"}
        (line,) = seen["series"]
        assert (line["x"], line["y"]) == ([0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 9])


def test_plotly_lines_and_points(kernel: KernelClient) -> None:
    code = (
        "fig = go.Figure([go.Scatter(y=[1, None, float('nan')], name='l', dx=2, x0=10),\n"
        "  go.Scatter(x=[1.5], y=[2], mode='markers', name='m'), go.Scatter(y=[1], visible='legendonly')])\n"
        "fig.update_xaxes(type='log', tickvals=[1, 10], ticktext=['one', 'ten']); fig"
    )
    assert series(kernel, PLOTLY + code, "x", "y") == [
        ("line", "l", [10, 12, 14], [1, None, NAN]),
        ("scatter", "m", [1.5], [2]),
    ]
    assert axes(kernel, "fig")["x"] == {
        "label": None,
        "unit": None,
        "scale": "log",
        "ticks": [1, 10],
        "tick_labels": ["one", "ten"],
    }
    day = "px.scatter(x=pd.to_datetime(['2024-02-29']), y=np.float32([1.5]))"
    assert series(kernel, day, "x", "y") == [
        ("scatter", None, ["2024-02-29T00:00:00"], [1.5])
    ]
    seen = axes(kernel, "px.line(x=['2024-01', '2024-02'], y=[1, 2])")
    assert seen["x"]["scale"] == "datetime"
    (many,) = axes(kernel, "px.line(y=np.arange(100_000))")["series"]
    assert (many["count"], many["truncated"]) == (100_000, True)
    assert many["y"] == list(range(0, 100_000, 100))


def test_plotly_bars(kernel: KernelClient) -> None:
    sums = "tips.groupby(['day', 'sex'], as_index=False).sum()"
    code = f"px.bar({sums}, x='day', y='tip', color='sex', barmode='group')"
    assert series(kernel, PLOTLY + code, "categories", "values") == [
        ("bar", "F", ["Fri", "Thu"], [11, 3]),
        ("bar", "M", ["Fri", "Thu"], [4, 6]),
    ]
    seen = axes(kernel, "px.bar(x=[1, 2], y=['a', 'b'], orientation='h')")
    (bars,) = seen["series"]
    assert (bars["orientation"], bars["categories"], bars["values"]) == (
        "horizontal",
        ["a", "b"],
        [1, 2],
    )
    assert (seen["y"]["scale"], seen["y"]["tick_labels"]) == ("categorical", ["a", "b"])
    code = "go.Figure(go.Bar(x=[['a', 'a'], ['b', 'c']], y=[1, 2], base=5))"
    assert series(kernel, code, "categories", "bases") == [
        ("bar", None, [["a", "b"], ["a", "c"]], [5, 5])
    ]


def test_plotly_histograms(kernel: KernelClient) -> None:
    by_day = "px.histogram(tips, x='day'"
    assert series(kernel, PLOTLY + by_day + ")", "categories", "values") == [
        ("bar", None, ["Thu", "Fri"], [3, 3])
    ]
    assert series(kernel, by_day + ", y='tip', histfunc='avg')", "values") == [
        ("bar", None, [3, 5])
    ]
    # plotly.js reads numbers in texts, and passes by what is none.
    texts = "x=['a', 'a', 'b', 'b'], y=['5', '10', 'none', '2.5'], histfunc='sum'"
    code = f"go.Figure(go.Histogram({texts}))"
    assert series(kernel, code, "categories", "values") == [
        ("bar", None, ["a", "b"], [15, 2.5])
    ]
    assert series(kernel, "px.histogram(tips, x='tip')", "sample") == [
        ("histogram", None, [1, 2, 3, 4, 5, 9])
    ]


def test_plotly_pies(kernel: KernelClient) -> None:
    code = "px.pie(tips, names='day', values='tip', title='P')"
    seen = chart(kernel, PLOTLY + code)
    (pie,) = seen["axes"][0]["series"]
    assert (seen["type"], seen["title"]) == ("pie", "P")
    assert (pie["categories"], pie["values"]) == (["Thu", "Fri"], [9, 15])
    assert pie["shares"] == [0.375, 0.625]


def test_plotly_box_plots(kernel: KernelClient) -> None:
    # The quartiles are those that plotly.js shows for these samples.
    code = "px.box(tips, x='day', y='tip')"
    assert series(kernel, PLOTLY + code, "boxes") == [
        (
            "box",
            None,
            [box("Thu", [1, 1.5, 3, 4.5, 5]), box("Fri", [2, 2.5, 4, 7.75, 9])],
        )
    ]
    quartiles = {"linear": [3.25, 8.75], "exclusive": [3, 9], "inclusive": [3.5, 8.5]}
    for method, (first, third) in quartiles.items():
        code = f"go.Figure(go.Box(x=[*range(1, 11), 99], quartilemethod='{method}', name='n'))"
        (one,) = axes(kernel, code)["series"]
        assert one["orientation"] == "horizontal"
        assert one["boxes"] == [box("n", [1, first, 6, third, 10], [99])]
    code = "go.Figure(go.Box(y=['1', '1.5', '3', 'none', '4.5', '5']))"
    assert series(kernel, code, "boxes") == [
        ("box", None, [box(None, [1, 1.375, 3, 4.625, 5])])
    ]
    code = "go.Figure(go.Box(x=['a'], q1=[1], median=[2], q3=[3], lowerfence=[0], upperfence=[5]))"
    assert series(kernel, code, "boxes") == [("box", None, [box("a", [0, 1, 2, 3, 5])])]


def test_plotly_several_axes(kernel: KernelClient) -> None:
    code = (
        "fig = make_subplots(1, 3, subplot_titles=['A', 'B'], specs=[[{}, {}, {'type': 'domain'}]])\n"
        "fig.add_scatter(y=[1], row=1, col=1); fig.add_heatmap(z=[[1]], row=1, col=2)\n"
        "fig.add_pie(values=[1], title='C', row=1, col=3); fig.update_layout(title='All')\n"
        "fig.add_scatter3d(x=[1], y=[1], z=[1]); fig.add_bar(y=[3], yaxis='y9')\n"
        "fig.update_layout(yaxis9={'overlaying': 'y', 'title': 'other'}); fig"
    )
    seen = chart(kernel, PLOTLY + code)
    assert (seen["type"], seen["title"]) == ("mixed", "All")
    assert [(one["type"], one["title"]) for one in seen["axes"]] == [
        ("line", "A"),
        ("unknown", "B"),
        ("pie", "C"),
        ("unknown", None),
        ("bar", None),
    ]
    assert seen["axes"][4]["y"]["label"] == "other"


def test_one_schema(kernel: KernelClient) -> None:
    """The same data is the same chart, whichever library draws it."""
    drawn = charts(
        kernel,
        PLOTLY + "x, y = [1, 2, 3], [2.5, None, 4]\n"
        "plt.plot(x, [2.5, np.nan, 4], label='s'); plt.title('T'); plt.xlabel('X (m)'); plt.show()\n"
        "fig = go.Figure(go.Scatter(x=x, y=[2.5, float('nan'), 4], name='s'))\n"
        "fig.update_layout(title='T', xaxis_title='X (m)')",
    )
    first, second = drawn
    first["axes"][0].pop("title")
    second["axes"][0].pop("title")
    assert first == second
