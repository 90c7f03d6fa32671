"""DataFrames and Series as data."""

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
    ],
)
def test_values(kernel: KernelClient, value: str, shown: Any) -> None:
    seen = table(kernel, f"pd.Series([{value}, None], dtype=object)")
    assert seen["rows"] == [[shown], [None]]


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
    seen = table(kernel, "pd.Series([list(range(1_000_000))])")
    assert seen["rows"] == [[list(range(100))]]
    assert seen["truncated"]


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
        "import sys; print([m for m in ('pandas', 'polars', 'zmq') if m in sys.modules])"
    )
    options = {"cwd": PACKAGE_ROOT, "capture_output": True, "text": True, "check": True}
    assert subprocess.run([sys.executable, "-c", code], **options).stdout == "[]\n"


def test_polars(kernel: KernelClient) -> None:
    cell = kernel.run(
        "import polars as pl, datetime as dt, decimal\n"
        "pl.DataFrame({'day': [dt.date(2024, 2, 29), None], 'n': [2**60, None], 's': ['a', None],\n"
        "  'f': [float('nan'), None], 'g': [float('-inf'), 0.5], 'at': [dt.datetime(2024, 1, 1, 2), None],\n"
        "  'took': [dt.timedelta(days=1, seconds=2.5), None], 'price': [decimal.Decimal('1.10'), None],\n"
        "  'kind': pl.Series(['x', 'y'], dtype=pl.Categorical), 'l': [[1, None], None],\n"
        "  'st': [{'k': 1.5}, None], 'b': [b'abc', None]})"
    )
    assert (cell.error, cell.stderr) == (None, "")
    (bundle,) = cell.bundles
    assert "<table" in bundle["text/html"]
    seen = bundle[MIME]
    assert (seen["kind"], seen["row_count"], seen["column_count"]) == (
        "dataframe",
        2,
        12,
    )
    assert (seen["index"], seen["row_labels"], seen["truncated"]) == ([], [], False)
    assert [c["name"] for c in seen["columns"]][:3] == ["day", "n", "s"]
    assert [c["dtype"] for c in seen["columns"]][:4] == [
        "Date",
        "Int64",
        "String",
        "Float64",
    ]
    nan, infinite = {"$numberDouble": "NaN"}, {"$numberDouble": "-Infinity"}
    first = ["2024-02-29", 2**60, "a", nan, infinite, "2024-01-01T02:00:00"]
    first += ["P1DT0H0M2.5S", "1.10", "x", [1, None], {"k": 1.5}, "YWJj"]
    assert seen["rows"][0] == first
    second = [None, None, None, None, 0.5, None, None, None, "y", None, None, None]
    assert seen["rows"][1] == second


def test_polars_series_and_bounds(kernel: KernelClient) -> None:
    seen = table(kernel, "import polars as pl; pl.Series('v', [1, None])")
    assert seen == {
        "kind": "series",
        "row_count": 2,
        "column_count": 1,
        "index": [],
        "columns": [{"name": "v", "dtype": "Int64"}],
        "row_labels": [],
        "rows": [[1], [None]],
        "truncated": False,
    }
    seen = table(kernel, "pl.DataFrame(np.zeros((100_000, 200)))")
    assert (seen["row_count"], seen["column_count"]) == (100_000, 200)
    assert (len(seen["rows"]), len(seen["columns"])) == (100, 50)
    assert seen["truncated"]
    seen = table(kernel, "pl.DataFrame()")
    assert (seen["rows"], seen["columns"], seen["truncated"]) == ([], [], False)
    (bundle,) = kernel.run("pl.DataFrame({'a': [1]}).lazy()").bundles
    assert MIME not in bundle
