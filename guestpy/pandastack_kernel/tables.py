"""pandas' tables as data: one more MIME type beside their HTML. See PROTOCOL.md.

Found by the names of its classes, so that pandas is imported by whom it serves.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from .jsonsafe import dumps, safe_str

MIME = "application/vnd.pandastack.data+json"

_MAX_ROWS = 100
_MAX_COLUMNS = 50
_MAX_BYTES = 1 << 18  # of the rows as JSON
_MAX_STRING = 1000  # characters
_MAX_ITEMS = 100  # of a list or dict in a cell of the table
_MAX_DEPTH = 4

_CLASSES = [
    (module, name)
    for name, home in (
        ("DataFrame", "pandas.core.frame"),
        ("Series", "pandas.core.series"),
    )
    for module in ("pandas", home)  # it moved with pandas 3
]


def install(shell: InteractiveShell) -> None:
    """Add the table to what shell shows of frames and series."""
    formatter = shell.display_formatter.mimebundle_formatter
    for module, name in _CLASSES:
        formatter.for_type_by_name(module, name, _bundle)


def _bundle(value: Any) -> Any:
    """The MIME bundle's part that we make, with that of a subclass."""
    own = getattr(value, "_repr_mimebundle_", None)
    bundle = own() if own is not None else None
    data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
    try:
        return {MIME: describe(value), **data}, metadata
    except Exception:  # a subclass that is not quite a table: the rest is shown
        return data, metadata


def describe(value: Any) -> dict[str, Any]:
    """The table of a DataFrame or Series."""
    is_frame = value.ndim == 2
    columns = value.shape[1] if is_frame else 1
    sample = value.iloc[:_MAX_ROWS]
    shown = (
        [sample.iloc[:, i] for i in range(min(columns, _MAX_COLUMNS))]
        if is_frame
        else [sample]
    )
    index = sample.index
    levels = [index.get_level_values(i) for i in range(index.nlevels)]
    cells = _Cells()
    rows = cells.rows(shown, len(sample))
    return {
        "kind": "dataframe" if is_frame else "series",
        "row_count": len(value),
        "column_count": columns,
        "index": [_field(level, cells) for level in levels],
        "columns": [_field(column, cells) for column in shown],
        "row_labels": cells.rows(levels, len(sample))[: len(rows)],
        "rows": rows,
        "truncated": cells.cut or len(rows) < len(value) or len(shown) < columns,
    }


def _field(column: Any, cells: _Cells) -> dict[str, Any]:
    return {"name": cells.value(column.name), "dtype": str(column.dtype)}


class _Cells:
    """Values as strict JSON; cut says whether any was shortened."""

    def __init__(self) -> None:
        self.cut = False

    def rows(self, columns: list[Any], count: int) -> list[list[Any]]:
        """The rows of columns, as many as fit."""
        if not columns:
            return [[] for _ in range(count)]
        values = [self._column(column) for column in columns]
        rows = [list(row) for row in zip(*values, strict=True)]
        while len(dumps(rows)) > _MAX_BYTES:
            rows = rows[: len(rows) // 2]
        return rows

    def _column(self, column: Any) -> list[Any]:
        values = column.tolist()
        if column.dtype.kind not in "fc" and str(column.dtype) != "object":
            # NaN is no number there: it marks what is missing.
            values = [None if type(v) is float and v != v else v for v in values]
        return [self.value(v) for v in values]

    def value(self, value: Any, depth: int = 0) -> Any:
        kind = type(value)
        if value is None or kind is bool or kind is int:
            return value
        if kind is float:
            return value if math.isfinite(value) else _not_finite(value)
        if kind is str:
            return self._text(value)
        if kind.__name__ in ("NAType", "NaTType"):
            return None
        if hasattr(value, "tolist"):  # of NumPy
            return self.value(value.tolist(), depth)
        if isinstance(value, bytes):
            return self._text(base64.b64encode(value).decode("ascii"))
        if depth < _MAX_DEPTH and isinstance(value, Mapping):
            items = self._some(value.items())
            return {self._text(safe_str(k)): self.value(v, depth + 1) for k, v in items}
        if depth < _MAX_DEPTH and isinstance(value, (list, tuple)):
            return [self.value(item, depth + 1) for item in self._some(value)]
        return self._text(_iso(value))

    def _some(self, items: Any) -> Iterable[Any]:
        self.cut = self.cut or len(items) > _MAX_ITEMS
        return islice(items, _MAX_ITEMS)

    def _text(self, text: str) -> str:
        if len(text) <= _MAX_STRING:
            return text
        self.cut = True
        return text[:_MAX_STRING] + "…"


def _not_finite(value: float) -> dict[str, str]:
    name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return {"$numberDouble": name}


def _iso(value: Any) -> str:
    if type(value).__name__ == "timedelta":
        from pandas import Timedelta  # the only one to write them as ISO 8601

        return str(Timedelta(value).isoformat())
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    return safe_str(value)
