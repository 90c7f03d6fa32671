"""Tables of pandas, polars and pyarrow as data: one more MIME type beside theirs.

See PROTOCOL.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from IPython.core.interactiveshell import InteractiveShell

from .display import add_format
from .jsonsafe import dumps
from .opened import MAX_STRING, opened
from .values import Values

MIME = "application/vnd.pandastack.data+json"

_MAX_ROWS = 100
_MAX_COLUMNS = 50
_MAX_BYTES = 1 << 18  # of the rows and their labels as JSON


def install(shell: InteractiveShell) -> None:
    """Add the table to what shell shows of frames and series.

    Only of those that have their rows: nothing is computed or read for it, so a lazy
    frame, a reader or a relation of a database has none.
    """
    add_format(shell, MIME, _CLASSES)


class _Column(NamedTuple):
    """A column or a level of the index, cut to the sample."""

    name: Any
    dtype: Any
    values: Iterable[Any]


def _of_pandas(value: Any) -> dict[str, Any]:
    is_frame = value.ndim == 2
    sample = value.iloc[:_MAX_ROWS]
    index = sample.index
    shown = [sample]
    if is_frame:
        shown = [sample.iloc[:, i] for i in range(min(value.shape[1], _MAX_COLUMNS))]
    return _table(
        rows=len(value),
        columns=value.shape[1] if is_frame else None,
        sample=len(sample),
        shown=[_pandas_column(column) for column in shown],
        levels=[
            _pandas_column(index.get_level_values(i)) for i in range(index.nlevels)
        ],
        names=list(value.columns.names) if is_frame else [],
    )


def _pandas_column(column: Any) -> _Column:
    dtype = str(column.dtype)
    if hasattr(column.dtype, "pyarrow_dtype"):
        return _Column(column.name, dtype, opened(column.array.__arrow_array__()))
    is_text = dtype == "str" or dtype.startswith("string")
    if is_text and column.nbytes > len(column) * MAX_STRING:
        # They are Arrow's, and would be copied whole.
        column = column.str.slice(stop=MAX_STRING + 1)
    values = column.tolist()
    if column.dtype.kind not in "fc" and dtype != "object":
        # NaN is no number there: it marks what is missing.
        values = [None if type(v) is float and v != v else v for v in values]
    return _Column(column.name, dtype, values)


def _of_polars(value: Any) -> dict[str, Any]:
    """polars has no index: there are no levels and no labels of rows."""
    sample = value.head(_MAX_ROWS)
    is_frame = hasattr(value, "get_columns")
    shown = sample.get_columns()[:_MAX_COLUMNS] if is_frame else [sample]
    return _table(
        rows=len(value),
        columns=value.width if is_frame else None,
        sample=len(sample),
        shown=[_Column(s.name, s.dtype, opened(s)) for s in shown],
        levels=[],
    )


def _of_arrow_table(value: Any) -> dict[str, Any]:
    """A Table or RecordBatch: as of polars, but names may repeat."""
    names = value.column_names[:_MAX_COLUMNS]
    return _table(
        rows=value.num_rows,
        columns=value.num_columns,
        sample=min(value.num_rows, _MAX_ROWS),
        shown=[_arrow_column(name, value.column(i)) for i, name in enumerate(names)],
        levels=[],
    )


def _of_arrow_array(value: Any) -> dict[str, Any]:
    """An Array or ChunkedArray: a series without a name."""
    shown = [_arrow_column(None, value)]
    return _table(len(value), None, min(len(value), _MAX_ROWS), shown, levels=[])


def _arrow_column(name: str | None, column: Any) -> _Column:
    return _Column(name, column.type, opened(column[:_MAX_ROWS]))


_CLASSES: dict[tuple[str, str], Callable[[Any], dict[str, Any]]] = {
    ("pandas", "DataFrame"): _of_pandas,
    ("pandas.core.frame", "DataFrame"): _of_pandas,  # before pandas 3
    ("pandas", "Series"): _of_pandas,
    ("pandas.core.series", "Series"): _of_pandas,
    ("polars.dataframe.frame", "DataFrame"): _of_polars,
    ("polars.series.series", "Series"): _of_polars,
    ("pyarrow.lib", "Table"): _of_arrow_table,
    ("pyarrow.lib", "RecordBatch"): _of_arrow_table,
    ("pyarrow.lib", "Array"): _of_arrow_array,
    ("pyarrow.lib", "ChunkedArray"): _of_arrow_array,
}


def _table(
    rows: int,
    columns: int | None,
    sample: int,
    shown: list[_Column],
    levels: list[_Column],
    names: Iterable[Any] = (),
) -> dict[str, Any]:
    """A table by its first columns, the levels of its index, and the names of the
    levels of its columns."""
    cells = Values()
    values = _rows(cells, [*levels, *shown], sample)
    count = 1 if columns is None else columns
    named = any(name is not None for name in names)
    return {
        "kind": "series" if columns is None else "dataframe",
        "row_count": rows,
        "column_count": count,
        "index": [_field(level, cells) for level in levels],
        **({"column_levels": [cells.value(name) for name in names]} if named else {}),
        "columns": [_field(column, cells) for column in shown],
        "row_labels": [row[: len(levels)] for row in values] if levels else [],
        "rows": [row[len(levels) :] for row in values],
        "truncated": cells.cut or len(values) < rows or len(shown) < count,
    }


def _field(column: _Column, cells: Values) -> dict[str, Any]:
    return {"name": cells.value(column.name), "dtype": cells.value(str(column.dtype))}


def _rows(cells: Values, columns: list[_Column], count: int) -> list[list[Any]]:
    """The rows of columns, as many as fit."""
    if not columns:
        return [[] for _ in range(count)]
    rows: list[list[Any]] = []
    size = 0
    for values in zip(*(column.values for column in columns), strict=True):
        row = cells.row(values)
        size += len(dumps(row))
        if size > _MAX_BYTES:
            break
        rows.append(row)
    return rows
