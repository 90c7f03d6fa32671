"""Tables of polars and of Arrow as data: the same shape, and nothing converted that is not shown."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from .client import PACKAGE_ROOT, KernelClient
from .test_tables import IMPORTS, MIME, table


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


def test_polars_cells_are_not_converted_whole(kernel: KernelClient) -> None:
    """100 rows of each would be gigabytes of Python's objects."""
    kernel.run("import polars as pl, numpy as np")
    for value in (
        "pl.Series([pl.Series(np.arange(1_000_000))]).new_from_index(0, 100)",
        "pl.Series(np.arange(10**8).reshape(100, 10**6))",
    ):
        seen = table(kernel, value)
        assert seen["rows"][0] == [list(range(100))]
        assert len(seen["rows"]) == 100
        assert seen["truncated"]
    seen = table(kernel, "pl.Series(['é' * 10_000_000]).new_from_index(0, 100)")
    assert seen["rows"] == [["é" * 1000 + "…"]] * 100
    seen = table(kernel, "pl.Series([bytes(10_000_000)]).new_from_index(0, 100)")
    assert seen["rows"] == [["A" * 1000 + "…"]] * 100
    seen = table(
        kernel,
        "pl.Series([{'l': [{'a': [1, None]}, None], 's': {'t': dt.date(2024, 1, 1)}}, None])",
    )
    first = {"l": [{"a": [1, None]}, None], "s": {"t": "2024-01-01"}}
    assert (seen["rows"], seen["truncated"]) == ([[first], [None]], False)
    enum = "pl.Series(['c1'], dtype=pl.Enum([f'c{i}' for i in range(100_000)]))"
    seen = table(kernel, enum)
    assert (seen["rows"], len(seen["columns"][0]["dtype"])) == ([["c1"]], 1001)


def test_polars_dates_that_python_has_not(kernel: KernelClient) -> None:
    """polars prints the first and last rows, and panics at such a one among them."""
    days = (
        "pl.Series([0] * 50 + [2**30, None] + [0] * 50, dtype=pl.Int32).cast(pl.Date)"
    )
    times = (
        "pl.Series([0] * 50 + [2**62, None] + [0] * 50).cast(pl.Datetime('ms', 'UTC'))"
    )
    seen = table(
        kernel, f"import polars as pl; pl.DataFrame({{'d': {days}, 't': {times}}})"
    )
    assert seen["rows"][49:52] == [
        ["1970-01-01", "1970-01-01T00:00:00+00:00"],
        ["<value out of range: 1073741824>", f"<value out of range: {2**62}>"],
        [None, None],
    ]


def test_a_panic_leaves_the_rest(kernel: KernelClient) -> None:
    """What ends in Rust is no Exception."""
    cell = kernel.run(
        "import polars as pl\n"
        "class Broken(pl.DataFrame):\n"
        "    def head(self, n): pl.Series([2**30], dtype=pl.Int32).cast(pl.Date).to_list()\n"
        "Broken({'a': [1]})"
    )
    assert cell.error is None
    assert "panicked" in cell.stderr
    assert "shape: (1, 1)" in cell.bundles[0]["text/plain"]
    assert "<table" in cell.bundles[0]["text/html"]
    assert MIME not in cell.bundles[0]


ARROW = "import pyarrow as pa, uuid\n"


@pytest.mark.parametrize("kind", ["table", "record_batch"])
def test_arrow_tables(kernel: KernelClient, kind: str) -> None:
    seen = table(
        kernel, f"{ARROW}pa.{kind}({{'n': [1, None], 'f': [float('nan'), 0.5]}})"
    )
    assert seen == {
        "kind": "dataframe",
        "row_count": 2,
        "column_count": 2,
        "index": [],
        "columns": [{"name": "n", "dtype": "int64"}, {"name": "f", "dtype": "double"}],
        "row_labels": [],
        "rows": [[1, {"$numberDouble": "NaN"}], [None, 0.5]],
        "truncated": False,
    }
    seen = table(kernel, f"pa.{kind}([pa.array([1]), pa.array([2])], names=['a', 'a'])")
    assert ([c["name"] for c in seen["columns"]], seen["rows"]) == (
        ["a", "a"],
        [[1, 2]],
    )
    seen = table(kernel, f"pa.{kind}({{}})")
    assert (seen["rows"], seen["columns"], seen["truncated"]) == ([], [], False)


@pytest.mark.parametrize(
    "array", ["pa.array([1, None])", "pa.chunked_array([[1], [None]])"]
)
def test_arrow_arrays(kernel: KernelClient, array: str) -> None:
    assert table(kernel, ARROW + array) == {
        "kind": "series",
        "row_count": 2,
        "column_count": 1,
        "index": [],
        "columns": [{"name": None, "dtype": "int64"}],
        "row_labels": [],
        "rows": [[1], [None]],
        "truncated": False,
    }


@pytest.mark.parametrize(
    ("values", "dtype", "shown"),
    [
        ("[True]", "pa.bool_()", True),
        ("[2**64 - 1]", "pa.uint64()", 2**64 - 1),
        ("[-np.inf]", "pa.float16()", {"$numberDouble": "-Infinity"}),
        ("['é']", "pa.string()", "é"),
        ("['é']", "pa.large_string()", "é"),
        ("['é']", "pa.string_view()", "é"),
        ("[b'abc']", "pa.binary()", "YWJj"),
        ("[b'abc']", "pa.large_binary()", "YWJj"),
        ("[b'abc']", "pa.binary(3)", "YWJj"),
        ("[b'abc']", "pa.binary_view()", "YWJj"),
        ("[decimal.Decimal('1.10')]", "pa.decimal128(5, 2)", "1.10"),
        ("[dt.date(2024, 2, 29)]", "pa.date32()", "2024-02-29"),
        ("[2**30]", "pa.int32()).cast(pa.date32()", "<value out of range: 1073741824>"),
        ("[dt.time(1, 2)]", "pa.time64('ns')", "01:02:00"),
        (
            "[1704067200000000001]",
            "pa.timestamp('ns')",
            "2024-01-01T00:00:00.000000001",
        ),
        ("[0]", "pa.timestamp('s', 'Europe/Paris')", "1970-01-01T01:00:00+01:00"),
        ("[0]", "pa.timestamp('ns', '-02:00')", "1969-12-31T22:00:00-02:00"),
        ("[86_402_500_000_000]", "pa.duration('ns')", "P1DT0H0M2.5S"),
        ("[(1, 2, 3)]", "pa.month_day_nano_interval()", [1, 2, 3]),
        ("['x']", "pa.dictionary(pa.int8(), pa.string())", "x"),
        ("['x']", "pa.run_end_encoded(pa.int32(), pa.string())", "x"),
        (
            "[uuid.UUID(int=1).bytes]",
            "pa.uuid()",
            "00000000-0000-0000-0000-000000000001",
        ),
        ("[[1, None]]", "pa.list_(pa.int64())", [1, None]),
        ("[[1, 2]]", "pa.list_(pa.int64(), 2)", [1, 2]),
        ("[[1, 2]]", "pa.large_list_view(pa.int64())", [1, 2]),
        ("[[['x'], None]]", "pa.large_list(pa.list_(pa.string()))", [["x"], None]),
        ("[[(1, [2])]]", "pa.map_(pa.int8(), pa.list_(pa.int8()))", [[1, [2]]]),
        (
            "[{'k': [{'t': 0}], 'm': None}]",
            "pa.struct({'k': pa.list_(pa.struct({'t': pa.timestamp('ns')})), 'm': pa.int8()})",
            {"k": [{"t": "1970-01-01T00:00:00"}], "m": None},
        ),
    ],
)
def test_arrow_values(
    kernel: KernelClient, values: str, dtype: str, shown: Any
) -> None:
    seen = table(kernel, f"{ARROW}pa.array({values} + [None], {dtype})")
    assert seen["rows"] == [[shown], [None]]
    assert not seen["truncated"]


def test_arrow_values_of_other_kinds(kernel: KernelClient) -> None:
    tags = "pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(['a', 'b'])]"
    seen = table(kernel, f"{ARROW}pa.UnionArray.from_sparse({tags})")
    assert seen["rows"] == [[1], ["b"]]
    seen = table(kernel, "pa.nulls(2)")
    assert (seen["columns"][0]["dtype"], seen["rows"]) == ("null", [[None], [None]])
    seen = table(kernel, "pa.FixedShapeTensorArray.from_numpy_ndarray(np.eye(2))")
    assert seen["rows"] == [[[1, 0]], [[0, 1]]]
    ends = "pa.py_buffer(np.array([0, 2], 'i4')), pa.py_buffer(b'\\xffa')"
    seen = table(kernel, f"pa.Array.from_buffers(pa.string(), 1, [None, {ends}])")
    assert seen["rows"] == [["\ufffda"]]


def test_arrow_is_bounded_and_not_converted_whole(kernel: KernelClient) -> None:
    wide = "pa.table([pa.array(np.zeros(100_000))] * 200, names=[f'c{i}' for i in range(200)])"
    seen = table(kernel, ARROW + wide)
    assert (seen["row_count"], seen["column_count"]) == (100_000, 200)
    assert (len(seen["rows"]), len(seen["columns"])) == (100, 50)
    assert seen["truncated"]
    seen = table(kernel, "pa.chunked_array([[i] for i in range(1000)])")
    assert (seen["row_count"], seen["rows"]) == (1000, [[i] for i in range(100)])
    # 100 rows of each would be gigabytes of Python's objects.
    million = "pa.FixedSizeListArray.from_arrays(np.arange(10**8), 10**6)"
    for value in (million, f"pa.StructArray.from_arrays([{million}], ['v'])"):
        seen = table(kernel, value)
        rows = [
            row[0].get("v") if isinstance(row[0], dict) else row[0]
            for row in seen["rows"]
        ]
        assert (len(rows), rows[0]) == (100, list(range(100)))
        assert seen["truncated"]
    seen = table(kernel, "pa.array(['é' * 10_000_000] * 50)")
    assert seen["rows"] == [["é" * 1000 + "…"]] * 50
    code = "a = pa.array(np.zeros(10**8, 'u1'))\nfor _ in range(4):"
    code += " a = pa.FixedSizeListArray.from_arrays(a, 100)\na"
    assert table(kernel, code)["rows"] == []  # none fits
    fields = "{f'k{i}': pa.int8() for i in range(10_000)}"
    seen = table(kernel, f"pa.array([{{}}], pa.struct({fields}))")
    assert len(seen["columns"][0]["dtype"]) == 1001
    assert len(seen["rows"][0][0]) == 100


def test_arrow_without_pandas() -> None:
    """Of nanoseconds pyarrow makes pandas' values, and Python has none."""
    code = (
        "import sys\n"
        "class NoPandas:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'pandas': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, NoPandas())\n"
        "from pandastack_kernel import tables; import pyarrow as pa\n"
        "for kind in (pa.timestamp('ns'), pa.timestamp('us', 'UTC')):\n"
        "    print(tables._of_arrow_array(pa.array([1, 1000], kind))['rows'])\n"
    )
    options = {"cwd": PACKAGE_ROOT, "capture_output": True, "text": True, "check": True}
    lines = subprocess.run([sys.executable, "-c", code], **options).stdout.splitlines()
    assert lines == [
        "[['1970-01-01 00:00:00.000000001'], ['1970-01-01T00:00:00.000001']]",
        "[['1970-01-01T00:00:00.000001+00:00'], ['1970-01-01T00:00:00.001000+00:00']]",
    ]


def test_pandas_over_arrow(kernel: KernelClient) -> None:
    lists = "pa.FixedSizeListArray.from_arrays(np.arange(10**7), 10**5)"
    kernel.run(
        f"{IMPORTS}{ARROW}made = lambda a: pd.Series(pd.arrays.ArrowExtensionArray(a))"
    )
    seen = table(kernel, f"made({lists})")
    assert (
        seen["columns"][0]["dtype"] == "fixed_size_list<item: int64>[100000][pyarrow]"
    )
    assert (len(seen["rows"]), seen["rows"][0]) == (100, [list(range(100))])
    assert seen["truncated"]
    seen = table(kernel, "made(pa.array([1.5, None, float('nan')]))")
    assert seen["rows"] == [[1.5], [None], [{"$numberDouble": "NaN"}]]
    seen = table(kernel, "made(pa.array(['x', None])).to_frame().set_index(0)")
    assert seen["row_labels"] == [["x"], [None]]
    seen = table(kernel, "made(pa.array([1], pa.timestamp('ns', 'UTC')))")
    assert seen["rows"] == [["1970-01-01T00:00:00.000000001+00:00"]]
    for dtype in ("'str'", "'string[pyarrow]'", "'object'"):
        seen = table(kernel, f"pd.Series(['é' * 100_000, None] * 50, dtype={dtype})")
        assert seen["rows"] == [["é" * 1000 + "…"], [None]] * 50


def test_what_has_no_rows_yet_is_not_read(kernel: KernelClient) -> None:
    code = "import polars as pl, pyarrow as pa, pyarrow.dataset as ds\nasked = []\n"
    kernel.run(code)
    (bundle,) = kernel.run(
        "pl.LazyFrame({'a': [1]}).map_batches(lambda df: asked.append(1) or df)"
    ).bundles
    assert MIME not in bundle
    (bundle,) = kernel.run(
        "pa.RecordBatchReader.from_batches(pa.schema({}), [])"
    ).bundles
    assert MIME not in bundle
    assert kernel.run("asked").text == "[]"
