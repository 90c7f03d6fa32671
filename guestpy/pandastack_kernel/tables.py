"""Tables of pandas and polars as data: one more MIME type beside their HTML.

See PROTOCOL.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from .display import add_format
from .jsonsafe import dumps
from .values import Values

MIME = "application/vnd.pandastack.data+json"

_MAX_ROWS = 100
_MAX_COLUMNS = 50
_MAX_BYTES = 1 << 18  # of the rows as JSON


def install(shell: InteractiveShell) -> None:
    """Add the table to what shell shows of frames and series."""
    add_format(shell, MIME, _CLASSES)


def _of_pandas(value: Any) -> dict[str, Any]:
    is_frame = value.ndim == 2
    sample = value.iloc[:_MAX_ROWS]
    index = sample.index
    return _table(
        rows=len(value),
        columns=value.shape[1] if is_frame else None,
        sample=len(sample),
        shown=[sample.iloc[:, i] for i in range(min(value.shape[1], _MAX_COLUMNS))]
        if is_frame
        else [sample],
        levels=[index.get_level_values(i) for i in range(index.nlevels)],
    )


def _of_polars(value: Any) -> dict[str, Any]:
    """polars has no index: there are no levels and no labels of rows."""
    sample = value.head(_MAX_ROWS)
    is_frame = hasattr(value, "get_columns")
    return _table(
        rows=len(value),
        columns=value.width if is_frame else None,
        sample=len(sample),
        shown=sample.get_columns()[:_MAX_COLUMNS] if is_frame else [sample],
        levels=[],
    )


_CLASSES: dict[tuple[str, str], Callable[[Any], dict[str, Any]]] = {
    ("pandas", "DataFrame"): _of_pandas,
    ("pandas.core.frame", "DataFrame"): _of_pandas,  # before pandas 3
    ("pandas", "Series"): _of_pandas,
    ("pandas.core.series", "Series"): _of_pandas,
    ("polars.dataframe.frame", "DataFrame"): _of_polars,
    ("polars.series.series", "Series"): _of_polars,
}


def _table(
    rows: int, columns: int | None, sample: int, shown: list[Any], levels: list[Any]
) -> dict[str, Any]:
    """A table by its columns and levels of the index, both cut to the sample."""
    cells = Values()
    values = _rows(cells, shown, sample)
    count = 1 if columns is None else columns
    return {
        "kind": "series" if columns is None else "dataframe",
        "row_count": rows,
        "column_count": count,
        "index": [_field(level, cells) for level in levels],
        "columns": [_field(column, cells) for column in shown],
        "row_labels": _rows(cells, levels, sample)[: len(values)] if levels else [],
        "rows": values,
        "truncated": cells.cut or len(values) < rows or len(shown) < count,
    }


def _field(column: Any, cells: Values) -> dict[str, Any]:
    return {"name": cells.value(column.name), "dtype": str(column.dtype)}


def _rows(cells: Values, columns: list[Any], count: int) -> list[list[Any]]:
    """The rows of columns, as many as fit."""
    if not columns:
        return [[] for _ in range(count)]
    values = [_column(cells, column) for column in columns]
    rows = [list(row) for row in zip(*values, strict=True)]
    while len(dumps(rows)) > _MAX_BYTES:
        rows = rows[: len(rows) // 2]
    return rows


def _column(cells: Values, column: Any) -> list[Any]:
    if hasattr(column, "to_list") and not hasattr(column, "tolist"):
        return [cells.value(v) for v in column.to_list()]  # polars has nulls
    values = column.tolist()
    if column.dtype.kind not in "fc" and str(column.dtype) != "object":
        # NaN is no number there: it marks what is missing.
        values = [None if type(v) is float and v != v else v for v in values]
    return [cells.value(v) for v in values]
