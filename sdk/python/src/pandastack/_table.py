"""The table in the bundle of a table or column of pandas, polars or pyarrow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Union

from ._fields import Fields

MIME = "application/vnd.pandastack.data+json"


@dataclass(frozen=True)
class Column:
    """A column, or a level of the index. A label of several levels is a list."""

    name: Any
    dtype: str

    @classmethod
    def from_dict(cls, data: object) -> Column:
        """Reads the server's JSON."""
        fields = Fields(data, "a column")
        return cls(data.get("name") if isinstance(data, Mapping) else None, fields.text("dtype", ""))


@dataclass(frozen=True)
class Table:
    """The beginning of a table, and how large the whole is.

    Values are JSON's: None is missing, dates are ISO 8601; NaN and the infinities are floats.

    Attributes:
        kind: ``dataframe`` or ``series``: whether it has columns or is one.
        row_count: Of the whole; `rows` has at most 100.
        column_count: Of the whole; `columns` has at most 50.
        truncated: Whether anything of the whole is missing here.
        index: The levels of the index.
        row_labels: For each of `rows` one value per level of the index; polars and pyarrow have none.
        column_levels: The names of the levels of the columns' labels, as of a pivot; empty without names.
    """

    kind: str
    row_count: int
    column_count: int
    truncated: bool = False
    index: list[Column] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)
    row_labels: list[list[Any]] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)
    column_levels: list[Any] = field(default_factory=list)

    @classmethod
    def from_dict(cls, data: object) -> Table:
        """Reads the JSON of the representation."""
        fields = Fields(data, "a table")
        return cls(
            kind=fields.text("kind"),
            row_count=fields.integer("row_count"),
            column_count=fields.integer("column_count"),
            truncated=fields.flag("truncated", False),
            index=fields.items("index", Column.from_dict),
            columns=fields.items("columns", Column.from_dict),
            row_labels=fields.items("row_labels", _row),
            rows=fields.items("rows", _row),
            column_levels=fields.items("column_levels", decoded),
        )

    def records(self) -> list[dict[Any, Any]]:
        """The rows as dictionaries by column name."""
        names = [tuple(c.name) if isinstance(c.name, list) else c.name for c in self.columns]
        return [dict(zip(names, row)) for row in self.rows]


def _row(values: object) -> list[Any]:
    return [decoded(value) for value in values] if isinstance(values, list) else [decoded(values)]


def decoded(value: Any) -> Union[Any, float]:
    """A value of a table or chart: what JSON has no number for is a float."""
    if isinstance(value, Mapping) and set(value) == {"$numberDouble"}:
        try:
            return float(value["$numberDouble"])
        except (TypeError, ValueError):
            return value
    return value
