"""Figures of matplotlib, seaborn and pandas as charts: the values that were plotted."""

from __future__ import annotations

from typing import Any

import pytest

from .charts import (
    IMPORTS,
    MIME,
    NAN,
    PLOTLY,
    SEABORN,
    axes,
    box,
    chart,
    charts,
    drawing,
    series,
)
from .client import KernelClient

kernel = pytest.fixture(scope="module")(drawing)


def test_the_whole_shape(kernel: KernelClient) -> None:
    code = (
        "plt.plot([1, 2, 3], [4.5, 5, 1e9], label='Oslo'); plt.plot([1], [2]); plt.yscale('log')\n"
        "plt.title('Rain'); plt.xlabel('day'); plt.ylabel('Rain [mm]'); plt.show()"
    )
    line = {"type": "line", "truncated": False}
    assert chart(kernel, code) == {
        "type": "line",
        "title": "Rain",
        "axes_count": 1,
        "axes": [
            {
                "type": "line",
                "title": "Rain",
                "x": {"label": "day", "unit": None, "scale": "linear"},
                "y": {"label": "Rain [mm]", "unit": "mm", "scale": "log"},
                "series_count": 2,
                "series": [
                    {
                        **line,
                        "label": "Oslo",
                        "count": 3,
                        "x": [1, 2, 3],
                        "y": [4.5, 5, 1e9],
                    },
                    {**line, "label": None, "count": 1, "x": [1], "y": [2]},
                ],
                "truncated": False,
            }
        ],
        "truncated": False,
    }


def test_where_figures_are_shown(kernel: KernelClient) -> None:
    plots = "fig, ax = plt.subplots(); ax.plot([{}])\n"
    seen = charts(
        kernel,
        plots.format(1)
        + "plt.show()\n"
        + plots.format(2)
        + "plt.show()\n"
        + plots.format(3),
    )
    assert [one["axes"][0]["series"][0]["y"] for one in seen] == [[1], [2], [3]]
    cell = kernel.run("fig")  # a value
    assert set(cell.bundles[0]) == {"text/plain", "image/png", MIME}
    cell = kernel.run("h = display(fig, display_id=True); ax.plot([7]); h.update(fig)")
    (updated,) = cell.of("update_display_data")
    assert updated["data"][MIME]["axes"][0]["series_count"] == 2
    (bundle,) = kernel.run("display(fig, include=['image/png'])").bundles
    assert set(bundle) == {"image/png"}


def test_svg_has_it_too(kernel: KernelClient) -> None:
    kernel.run(IMPORTS + "%config InlineBackend.figure_formats = ['svg']")
    (bundle,) = kernel.run("plt.plot([1, 2]); plt.show()").bundles
    assert {"image/svg+xml", MIME} <= set(bundle)
    kernel.run("%config InlineBackend.figure_formats = ['png']")


def test_points_and_curves(kernel: KernelClient) -> None:
    code = "plt.scatter([1, 2], [3, np.nan], label='s'); plt.plot([5, 6], [7, 8], 'o', label='m')"
    assert series(kernel, code, "x", "y") == [
        ("scatter", "m", [5, 6], [7, 8]),
        ("scatter", "s", [1, 2], [3, NAN]),
    ]
    code = (
        "plt.plot([1, 2, 3], [np.inf, -np.inf, np.nan]); plt.axhline(2); plt.axvline(3)"
    )
    infinities = [{"$numberDouble": name} for name in ("Infinity", "-Infinity", "NaN")]
    assert series(kernel, code, "x", "y") == [("line", None, [1, 2, 3], infinities)]
    code = "plt.scatter(np.ma.array([1, 2], mask=[0, 1]), [3, 4])"
    assert series(kernel, code, "y") == [("scatter", None, [3, None])]
    code = "plt.errorbar([1, 2], [3, 4], yerr=[.1, .2], capsize=3, label='e'); plt.step([1, 2], [5, 6])"
    assert series(kernel, code, "y") == [("line", "e", [3, 4]), ("line", None, [5, 6])]
    assert series(kernel, "plt.stem([1, 2], [3, 4])", "x", "y") == [
        ("scatter", None, [1, 2], [3, 4])
    ]


def test_text_and_dates_on_axes(kernel: KernelClient) -> None:
    seen = axes(kernel, "plt.plot(['a', 'b', 'a'], [1, 2, 3]); plt.scatter(['b'], [4])")
    assert seen["x"]["scale"] == "categorical"
    assert seen["x"]["tick_labels"] == ["a", "b"]
    assert [one["x"] for one in seen["series"]] == [["a", "b", "a"], ["b"]]
    code = (
        "days = pd.DatetimeIndex(['2024-01-31T00:00', '2024-03-01T12:30'])\n"
        "plt.plot(days, [1, 2]); plt.scatter(days, [3, 4]); plt.plot([dt.date(2024, 2, 1)], [5])"
    )
    seen = axes(kernel, code)
    assert seen["x"]["scale"] == "datetime"
    assert [one["x"] for one in seen["series"]] == [
        ["2024-01-31T00:00:00", "2024-03-01T12:30:00"],
        ["2024-02-01"],
        ["2024-01-31T00:00:00", "2024-03-01T12:30:00"],
    ]
    seen = axes(
        kernel, "plt.plot([1, 2], [3, 4]); plt.xticks([1, 1.5, 2], ['lo', 'mid', 'hi'])"
    )
    assert (seen["x"]["scale"], seen["series"][0]["x"]) == ("linear", [1, 2])
    assert (seen["x"]["ticks"], seen["x"]["tick_labels"]) == (
        [1, 1.5, 2],
        ["lo", "mid", "hi"],
    )


def test_bars(kernel: KernelClient) -> None:
    seen = axes(kernel, "plt.bar(['a', 'b'], [1, 2.5], yerr=[.1, .2], label='n')")
    (bars,) = seen["series"]
    assert (seen["type"], seen["x"]["scale"], seen["x"]["tick_labels"]) == (
        "bar",
        "categorical",
        ["a", "b"],
    )
    assert (bars["orientation"], bars["categories"], bars["values"]) == (
        "vertical",
        ["a", "b"],
        [1, 2.5],
    )
    (bars,) = axes(kernel, "plt.barh(['a', 'b'], [1, -2])")["series"]
    assert (bars["orientation"], bars["categories"], bars["values"]) == (
        "horizontal",
        ["a", "b"],
        [1, -2],
    )
    code = (
        "at = np.arange(3); plt.bar(at - .2, [1, 2, 3], .4, label='m')\n"
        "plt.bar(at + .2, [3, 2, 1], .4, label='n'); plt.xticks(at, ['p', 'q', 'r'])"
    )
    assert series(kernel, code, "categories", "values") == [
        ("bar", "m", ["p", "q", "r"], [1, 2, 3]),
        ("bar", "n", ["p", "q", "r"], [3, 2, 1]),
    ]
    code = "plt.bar(range(4), [1, 2, 3, 4]); plt.xticks([0, 3], ['first', 'last'])"
    assert series(kernel, code, "categories") == [("bar", None, [0, 1, 2, 3])]
    code = "plt.bar(['a', 'b'], [1, 2]); plt.bar(['a', 'b'], [3, 4], bottom=[1, 2])"
    assert axes(kernel, code)["series"][1]["bases"] == [1, 2]
    code = "plt.bar(pd.date_range('2024-01-01', periods=2), [1, 2], width=1)"
    days = ["2024-01-01T00:00:00", "2024-01-02T00:00:00"]
    assert series(kernel, code, "categories", "values") == [("bar", None, days, [1, 2])]
    code = "plt.bar(['a', 'b'], [1, 2]); plt.plot(['a', 'b'], [3, 4], label='l')"
    assert axes(kernel, code)["type"] == "mixed"


def test_histograms(kernel: KernelClient) -> None:
    sample = "[1, 2, 2, 3, 3.5]"
    edges, values = [1, 1.625, 2.25, 2.875, 3.5], [1, 2, 0, 2]
    assert series(
        kernel, f"plt.hist({sample}, bins=4, label='h')", "edges", "values"
    ) == [("histogram", "h", edges, values)]
    flat = axes(
        kernel, f"plt.hist({sample}, bins=4, orientation='horizontal', log=True)"
    )
    assert (flat["series"][0]["orientation"], flat["series"][0]["values"]) == (
        "horizontal",
        values,
    )
    assert flat["x"]["scale"] == "log"
    two = series(
        kernel,
        f"plt.hist([{sample}, [1]], bins=4, label=['p', 'q'], stacked=True)",
        "values",
    )
    assert two == [("histogram", "p", values), ("histogram", "q", [1, 0, 0, 0])]
    assert series(kernel, "plt.stairs([1, 2], [0, 1, 4])", "edges", "values") == [
        ("histogram", None, [0, 1, 4], [1, 2])
    ]


def test_pies(kernel: KernelClient) -> None:
    seen = axes(kernel, "plt.pie([1, 1, 2], labels=['a', 'b', 'c'], autopct='%d')")
    assert (seen["type"], seen["x"], seen["y"]) == ("pie", None, None)
    (pie,) = seen["series"]
    assert pie["categories"] == ["a", "b", "c"]
    assert pie["shares"] == pytest.approx([0.25, 0.25, 0.5])


@pytest.mark.parametrize(
    ("options", "way"),
    [
        ("", "vertical"),
        ("patch_artist=True, notch=True, showmeans=True", "vertical"),
        ("showmeans=True, meanline=True, showcaps=False", "vertical"),
        ("orientation='horizontal', showbox=False", "horizontal"),
    ],
)
def test_box_plots(kernel: KernelClient, options: str, way: str) -> None:
    code = (
        f"plt.boxplot([[1, 2, 3, 4, 20], [2, 3, 4]], tick_labels=['a', 'b'], {options})"
    )
    seen = axes(kernel, code)
    (boxes,) = seen["series"]
    assert (seen["type"], boxes["orientation"]) == ("box", way)
    assert boxes["boxes"] == [
        box("a", [1, 2, 3, 4, 4], [20]),
        box("b", [2, 2.5, 3, 3.5, 4]),
    ]


def test_several_axes(kernel: KernelClient) -> None:
    code = (
        "fig, ((a, b), (c, d)) = plt.subplots(2, 2, layout='constrained'); fig.suptitle('All')\n"
        "a.plot([1, 2]); a.set_title('lines'); b.bar(['x'], [1]); b.set_title('bars', loc='left')\n"
        "picture = c.imshow([[1, 2], [3, 4]]); c.set_xlabel('col'); fig.colorbar(picture)\n"
        "a.twinx().plot([10, 20])"
    )
    seen = chart(kernel, code)
    assert (seen["type"], seen["title"], seen["axes_count"]) == ("mixed", "All", 4)
    assert [(one["type"], one["title"]) for one in seen["axes"]] == [
        ("line", "lines"),
        ("bar", "bars"),
        ("unknown", None),
        ("line", None),
    ]
    assert seen["axes"][2]["x"]["label"] == "col"


@pytest.mark.parametrize(
    "code",
    [
        "ax = plt.figure().add_subplot(projection='3d'); ax.plot([1], [2], [3])",
        "ax = plt.figure().add_subplot(projection='polar'); ax.plot([1], [2])",
        "ax = plt.gca(); ax.contour([[1, 2], [3, 4]])",
        "ax = plt.gca(); ax.contourf([[1, 2], [3, 4]])",
        "ax = plt.gca(); ax.hexbin([1, 2], [3, 4])",
        "ax = plt.gca(); ax.pcolormesh([[1, 2], [3, 4]])",
        "ax = plt.gca(); ax.quiver([1], [2], [3], [4])",
        "ax = plt.gca(); ax.violinplot([1, 2, 3])",
        "ax = plt.gca(); ax.fill_between([1, 2], [3, 4])",
        "import seaborn as sns; ax = sns.violinplot(tips, x='day', y='tip')",
        "import seaborn as sns; ax = sns.heatmap([[1, 2], [3, 4]])",
    ],
)
def test_unknown_kinds(kernel: KernelClient, code: str) -> None:
    seen = axes(kernel, code + "; ax.set_title('T'); ax.set_xlabel('X'); plt.show()")
    assert (seen["type"], seen["title"], seen["x"]["label"]) == ("unknown", "T", "X")
    assert (seen["series"], seen["series_count"]) == ([], 0)


def test_empty_figures_are_no_charts(kernel: KernelClient) -> None:
    assert charts(kernel, "plt.subplots(); plt.show()") == []
    assert charts(kernel, PLOTLY + "go.Figure()") == []


def test_a_chart_that_cannot_be_read_loses_nothing(kernel: KernelClient) -> None:
    cell = kernel.run(
        IMPORTS + "import warnings\n"
        "class Odd(plt.Figure):\n"
        "    def get_suptitle(self):\n"
        "        warnings.warn('never seen'); raise RuntimeError('odd')\n"
        "plt.figure(FigureClass=Odd).add_subplot().plot([1, 2])"
    )
    assert (cell.error, cell.stderr, len(cell.pngs)) == (None, "", 1)
    assert all(MIME not in bundle for bundle in cell.bundles)


def test_it_is_bounded_and_says_so(kernel: KernelClient) -> None:
    seen = axes(kernel, "plt.plot(range(100_000)); plt.plot([1, 2])")
    many, few = seen["series"]
    assert (many["count"], many["truncated"], few["truncated"]) == (
        100_000,
        True,
        False,
    )
    assert many["y"] == list(range(0, 100_000, 100))
    assert seen["truncated"]
    seen = chart(kernel, "plt.plot(np.zeros((2, 250)))")
    assert seen["axes"][0]["series_count"] == 250
    assert len(seen["axes"][0]["series"]) == 200
    assert seen["truncated"]
    fig = "fig, axes = plt.subplots(6, 6, figsize=(3, 3))\n"
    seen = chart(kernel, fig + "for a in axes.flat: a.plot([1]); a.axis('off')")
    assert (seen["axes_count"], len(seen["axes"]), seen["truncated"]) == (36, 32, True)
    bars = "plt.bar([f'{i:0>900}' for i in range(400)], np.arange(400)); plt.xticks([])"
    (one,) = axes(kernel, bars)["series"]
    assert one["count"] == 400
    assert one["values"] == list(range(len(one["values"])))
    assert 0 < len(one["values"]) < 300
    seen = axes(kernel, "plt.boxplot(np.r_[np.zeros(5000), np.arange(1, 501)])")
    (one,) = seen["series"][0]["boxes"]
    assert (len(one["outliers"]), one["outlier_count"]) == (100, 500)
    assert chart(kernel, "plt.plot([1]); plt.title('t' * 5000)")["truncated"]


# pandas and seaborn


def test_pandas(kernel: KernelClient) -> None:
    frame = "df = pd.DataFrame({'a': [1, 2], 'b': [3, 4]}, index=['p', 'q'])\n"
    assert series(kernel, frame + "df.plot()", "y") == [
        ("line", "a", [1, 2]),
        ("line", "b", [3, 4]),
    ]
    for stacked, bases in ((False, None), (True, [1, 2])):
        seen = axes(kernel, frame + f"df.plot.bar(stacked={stacked})")
        assert seen["x"]["scale"] == "categorical"
        second = seen["series"][1]
        assert (second["label"], second["categories"], second["values"]) == (
            "b",
            ["p", "q"],
            [3, 4],
        )
        assert second.get("bases") == bases
    months = (
        "pd.Series([1, 2], index=pd.date_range('2024-01-31', periods=2, freq='ME'))"
    )
    seen = axes(kernel, months + ".plot()")
    assert (seen["x"]["scale"], seen["series"][0]["x"]) == (
        "datetime",
        ["2024-01", "2024-02"],
    )
    assert series(kernel, "tips.boxplot(column='tip', by='day')", "boxes") == [
        ("box", None, [box("Fri", [2, 3, 4, 6.5, 9]), box("Thu", [1, 2, 3, 4, 5])])
    ]
    assert series(kernel, "tips.plot.scatter('tip', 'tip')", "x") == [
        ("scatter", None, [1, 2, 3, 4, 5, 9])
    ]
    assert series(kernel, "tips.tip.plot.hist(bins=2)", "edges", "values") == [
        ("histogram", "tip", [1, 5, 9], [4, 2])
    ]


def test_seaborn(kernel: KernelClient) -> None:
    def seen(plot: str, *names: str) -> list[tuple[Any, ...]]:
        return series(kernel, f"{SEABORN}sns.{plot}", *names)

    days = ["Thu", "Fri"]
    by_sex = "tips, x='day', y='tip', hue='sex'"
    assert seen(f"barplot({by_sex}, capsize=.1)", "categories", "values") == [
        ("bar", "M", days, [3, 4]),
        ("bar", "F", days, [3, 5.5]),
    ]
    assert seen("barplot(tips, x='tip', y='day')", "categories", "values") == [
        ("bar", None, days, [3, 5])
    ]
    assert seen("countplot(tips, x='day')", "values") == [("bar", None, [3, 3])]
    assert seen(f"lineplot({by_sex})", "x", "y") == [
        ("line", "M", days, [3, 4]),
        ("line", "F", days, [3, 5.5]),
    ]
    assert seen(f"pointplot({by_sex})", "x", "y") == [
        ("line", "M", days, [3, 4]),
        ("line", "F", days, [3, 5.5]),
    ]
    assert seen("scatterplot(tips, x='tip', y='tip', hue='sex')", "x") == [
        ("scatter", "M", [1, 4, 5]),
        ("scatter", "F", [2, 3, 9]),
    ]
    assert seen("histplot(tips, x='tip', bins=[0, 3, 9])", "edges", "values") == [
        ("histogram", None, [0, 3, 9], [2, 4])
    ]
    assert seen("boxplot(tips, x='day', y='tip')", "boxes") == [
        ("box", None, [box("Thu", [1, 2, 3, 4, 5]), box("Fri", [2, 3, 4, 6.5, 9])])
    ]
    assert seen(f"boxplot({by_sex})", "boxes") == [
        ("box", "M", [box("Thu", [1, 2, 3, 4, 5]), box("Fri", [4, 4, 4, 4, 4])]),
        (
            "box",
            "F",
            [box("Thu", [3, 3, 3, 3, 3]), box("Fri", [2, 3.75, 5.5, 7.25, 9])],
        ),
    ]
    assert seen("stripplot(tips, x='day', y='tip')", "x", "y") == [
        ("scatter", None, ["Thu"] * 3, [1, 3, 5]),
        ("scatter", None, ["Fri"] * 3, [2, 4, 9]),
    ]
    facets = chart(
        kernel,
        f"{SEABORN}sns.relplot(tips, x='tip', y='tip', col='day', hue='sex'); plt.show()",
    )
    assert [one["title"] for one in facets["axes"]] == ["day = Thu", "day = Fri"]
    assert [
        (one["label"], one["y"]) for axes in facets["axes"] for one in axes["series"]
    ] == [("M", [1, 5]), ("F", [3]), ("F", [2, 9]), ("M", [4])]
