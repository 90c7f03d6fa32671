"""DataFrames and Series of pandas as data."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from .client import PACKAGE_ROOT, KernelClient

MIME = "application/vnd.pandastack.data+json"
IMPORTS = "import pandas as pd, numpy as np, datetime as dt, decimal\n"


def table(kernel: KernelClient, code: str) -> dict[str, Any]:
    cell = kernel.run(IMPORTS + code)
    assert cell.error is None, cell.error
    assert cell.stderr == ""
    (bundle,) = cell.bundles
    return bundle[MIME]


def test_what_a_frame_is(kernel: KernelClient) -> None:
    code = (
        "pd.DataFrame({'day': pd.date_range('2024-01-01', periods=2, unit='us'), 'n': [1, 2],"
        " 's': ['a', 'b'], 'ok': [True, False]}, index=['x', 'y'])"
    )
    seen = table(kernel, code)
    dtypes = [field.pop("dtype") for field in seen["columns"]]
    assert dtypes[:2] + dtypes[3:] == ["datetime64[us]", "int64", "bool"]
    assert seen["index"][0]["name"] is None
    del seen["index"]
    assert seen == {
        "kind": "dataframe",
        "row_count": 2,
        "column_count": 4,
        "columns": [{"name": "day"}, {"name": "n"}, {"name": "s"}, {"name": "ok"}],
        "row_labels": [["x"], ["y"]],
        "rows": [
            ["2024-01-01T00:00:00", 1, "a", True],
            ["2024-01-02T00:00:00", 2, "b", False],
        ],
        "truncated": False,
    }


def test_it_comes_with_the_other_formats(kernel: KernelClient) -> None:
    kernel.run(IMPORTS + "df = pd.DataFrame({'a': [1]})")
    for code in ("df", "display(df)", "h = display(df, display_id=True)"):
        (bundle,) = kernel.run(code).bundles
        assert set(bundle) == {"text/plain", "text/html", MIME}
    cell = kernel.run("h.update(df * 2)")
    assert cell.of("update_display_data")[0]["data"][MIME]["rows"] == [[2]]
    (bundle,) = kernel.run("display(df, include=['text/plain'])").bundles
    assert set(bundle) == {"text/plain"}
    (bundle,) = kernel.run("df['a']").bundles
    assert set(bundle) == {"text/plain", MIME}


def test_series_and_index_levels(kernel: KernelClient) -> None:
    index = "pd.MultiIndex.from_product([['k', 'm'], [10, 20]], names=['o', None])"
    seen = table(kernel, f"pd.Series([1.5, 2, 3, 4], index={index}, name='v')")
    assert (seen["kind"], seen["row_count"], seen["column_count"]) == ("series", 4, 1)
    assert seen["columns"] == [{"name": "v", "dtype": "float64"}]
    assert [level["name"] for level in seen["index"]] == ["o", None]
    assert seen["row_labels"] == [["k", 10], ["k", 20], ["m", 10], ["m", 20]]
    seen = table(kernel, f"pd.DataFrame([[1, 2, 3, 4]], columns={index})")
    assert [c["name"] for c in seen["columns"]][:2] == [["k", 10], ["k", 20]]
    assert seen["column_levels"] == ["o", None]


def test_names_of_column_levels(kernel: KernelClient) -> None:
    frame = "pd.DataFrame({'a': [1, 2]})"
    assert "column_levels" not in table(kernel, frame)
    assert "column_levels" not in table(kernel, "pd.Series([1], name='s')")
    seen = table(kernel, f"{frame}.rename_axis(columns='what')")
    assert seen["column_levels"] == ["what"]
    seen = table(kernel, f"{frame}.rename_axis(columns=dt.date(2024, 1, 2))")
    assert seen["column_levels"] == ["2024-01-02"]


def test_missing_and_infinite_values_are_told_apart(kernel: KernelClient) -> None:
    code = (
        "pd.Series([None, float('nan'), np.inf, -np.inf, pd.NA, pd.NaT, 0.5, np.float32(2),"
        " np.nan], dtype=object)"
    )
    nan = {"$numberDouble": "NaN"}
    assert [row[0] for row in table(kernel, code)["rows"]] == [
        None,
        nan,
        {"$numberDouble": "Infinity"},
        {"$numberDouble": "-Infinity"},
        None,
        None,
        0.5,
        2.0,
        nan,
    ]
    assert table(kernel, "pd.DataFrame({'f': [np.nan]})")["rows"] == [[nan]]
    for dtype in ("'str'", "'category'", "'string'"):
        seen = table(kernel, f"pd.Series(['x', None], dtype={dtype})")
        assert seen["rows"] == [["x"], [None]]
    seen = table(kernel, "pd.DataFrame({'i': pd.array([1, None], dtype='Int64')})")
    assert (seen["columns"][0]["dtype"], seen["rows"]) == ("Int64", [[1], [None]])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("dt.date(2024, 2, 29)", "2024-02-29"),
        ("dt.time(1, 2)", "01:02:00"),
        ("dt.timedelta(days=1, seconds=2)", "P1DT0H0M2S"),
        ("pd.Timedelta('1h')", "P0DT1H0M0S"),
        ("pd.Timestamp('2024-01-01', tz='UTC')", "2024-01-01T00:00:00+00:00"),
        ("np.datetime64('2024-01-01')", "2024-01-01"),
        ("pd.Period('2024-03')", "2024-03"),
        ("decimal.Decimal('1.10')", "1.10"),
        ("2**70", 2**70),
        ("b'abc'", "YWJj"),
        (
            "[1, float('nan'), {'k': (None,)}]",
            [1, {"$numberDouble": "NaN"}, {"k": [None]}],
        ),
        ("np.arange(3)", [0, 1, 2]),
        ("1 + 2j", "(1+2j)"),
        ("'\\ud800'", "\ufffd"),
        ("pd.Interval(0, 1)", "(0, 1]"),
        ("np.datetime64('2024-01-01', 'ns')", "2024-01-01T00:00:00"),
        ("np.datetime64('NaT', 'ns')", None),
        ("np.timedelta64(1500, 'ms').astype('m8[ns]')", "P0DT0H0M1.5S"),
        ("np.array(['2024-01-01', 'NaT'], 'M8[ns]')", ["2024-01-01T00:00:00", None]),
        ("np.array([['1970-01-02']], 'M8[ps]')", [["1970-01-02T00:00:00"]]),
        ("[np.array([1000], 'm8[ns]')]", [["P0DT0H0M0.000001S"]]),
        (
            "np.array(['2024-01-01', '20000-01-01'], 'M8[D]')",
            ["2024-01-01", "20000-01-01"],
        ),
        ("np.timedelta64(2, 'Y')", "2 years"),
        (
            "np.array([(1, '2024-01-01')], [('n', int), ('t', 'M8[ns]')])",
            [[1, "2024-01-01T00:00:00"]],
        ),
        (
            "np.array([(1, '2024-01-01')], [('n', int), ('t', 'M8[ns]')])[0]",
            [1, "2024-01-01T00:00:00"],
        ),
    ],
)
def test_values(kernel: KernelClient, value: str, shown: Any) -> None:
    seen = table(kernel, f"pd.Series([{value}, None], dtype=object)")
    assert seen["rows"] == [[shown], [None]]


@pytest.mark.parametrize(
    "method",
    [
        "__getattr__ = lambda self, name: lambda *a, **k: self",
        "tolist = lambda self: self.__class__()",
        "ndim = 1; tolist = 0",
        "isoformat = 0",
        "isoformat = lambda self: self",
    ],
)
def test_what_has_every_method_is_its_text(kernel: KernelClient, method: str) -> None:
    code = f"class P:\n    {method}\n    def __repr__(self): return 'a P'\n"
    assert table(kernel, code + "pd.Series([P(), 1])")["rows"] == [["a P"], [1]]


def test_mocks_are_their_text(kernel: KernelClient) -> None:
    code = "from unittest.mock import Mock, MagicMock\n"
    seen = table(kernel, code + "pd.DataFrame({'m': [MagicMock(), Mock()]})")
    assert [row[0].partition(" ")[0] for row in seen["rows"]] == ["<MagicMock", "<Mock"]


def test_it_is_bounded_and_says_so(kernel: KernelClient) -> None:
    seen = table(kernel, "pd.DataFrame(np.zeros((100_000, 200)))")
    assert (seen["row_count"], seen["column_count"]) == (100_000, 200)
    assert (len(seen["rows"]), len(seen["rows"][0]), len(seen["columns"])) == (
        100,
        50,
        50,
    )
    assert len(seen["row_labels"]) == 100
    assert seen["truncated"]
    seen = table(kernel, "pd.DataFrame({'s': ['é' * 10_000_000]})")
    assert seen["rows"] == [["é" * 1000 + "…"]]
    assert seen["truncated"]
    seen = table(kernel, "pd.DataFrame([['x' * 990] * 50] * 100)")
    assert 0 < len(seen["rows"]) == len(seen["row_labels"]) < 10
    assert seen["truncated"]
    for value in ("list(range(1_000_000))", "np.arange(1_000_000)"):
        seen = table(kernel, f"pd.Series([{value}])")
        assert seen["rows"] == [[list(range(100))]]
        assert seen["truncated"]
    seen = table(kernel, "pd.Series([np.zeros((100, 100, 100))])")
    assert (seen["row_count"], seen["rows"]) == (1, [])  # it does not fit
    seen = table(kernel, "v = [1]\nfor _ in range(10): v = [v]\npd.Series([v])")
    assert seen["rows"] == [[[[[[[[[["…"]]]]]]]]]]
    assert seen["truncated"]
    seen = table(kernel, "pd.DataFrame([[1]] * 100, index=['x' * 1000 * 2] * 100)")
    assert len(seen["rows"]) == len(seen["row_labels"]) == 100
    labels = "pd.MultiIndex.from_tuples([('x' * 990,) * 10] * 100)"
    seen = table(kernel, f"pd.Series([1] * 100, index={labels})")
    assert 0 < len(seen["rows"]) == len(seen["row_labels"]) < 30


def test_empty_and_odd_frames(kernel: KernelClient) -> None:
    seen = table(kernel, "pd.DataFrame()")
    assert (seen["rows"], seen["columns"], seen["truncated"]) == ([], [], False)
    seen = table(kernel, "pd.DataFrame(index=[1, 2])")
    assert (seen["row_labels"], seen["rows"]) == ([[1], [2]], [[], []])
    seen = table(kernel, "pd.DataFrame([[1, 2]], columns=['a', 'a'])")
    assert seen["rows"] == [[1, 2]]
    seen = table(kernel, "pd.Series(['a', 'b', 'a'], dtype='category')")
    assert (seen["columns"][0]["dtype"], len(seen["rows"])) == ("category", 3)


def test_subclasses(kernel: KernelClient) -> None:
    cell = kernel.run(
        IMPORTS + "class Mine(pd.DataFrame):\n"
        "    def _repr_mimebundle_(self, include=None, exclude=None):\n"
        "        return {'application/x': 'own'}, {'application/x': {'m': 1}}\n"
        "Mine({'a': [1]})"
    )
    (result,) = cell.of("execute_result")
    assert result["data"]["application/x"] == "own"
    assert result["data"][MIME]["rows"] == [[1]]
    assert result["metadata"] == {"application/x": {"m": 1}}
    cell = kernel.run(
        "class Broken(pd.DataFrame):\n    @property\n    def iloc(self): 1/0\n"
        "    def __repr__(self): return 'broken'\nBroken()"
    )
    assert cell.error is None
    assert cell.bundles[0]["text/plain"] == "broken"
    assert MIME not in cell.bundles[0]


def test_styler_is_what_it_shows(kernel: KernelClient) -> None:
    cell = kernel.run(IMPORTS + "pd.DataFrame({'a': [1.25]}).style.format(precision=1)")
    assert cell.error is None
    assert "1.2" in cell.bundles[0]["text/html"]
    assert MIME not in cell.bundles[0]


def test_nothing_is_imported_for_it() -> None:
    code = (
        "from pandastack_kernel import shell, tables, zygote\n"
        "tables.install(shell.create_shell())\n"
        "import sys; print([m for m in ('pandas', 'polars', 'pyarrow', 'zmq') if m in sys.modules])"
    )
    options = {"cwd": PACKAGE_ROOT, "capture_output": True, "text": True, "check": True}
    assert subprocess.run([sys.executable, "-c", code], **options).stdout == "[]\n"
