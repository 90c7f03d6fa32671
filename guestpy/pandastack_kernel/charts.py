"""Charts as data: what a figure shows, whichever library made it. See PROTOCOL.md.

Each library has a module that reads its figures into the classes below; here they
become one bounded JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from .jsonsafe import dumps
from .values import Values, listed

MIME = "application/vnd.pandastack.chart+json"

_MAX_AXES = 32
_MAX_SERIES = 200  # of a chart
_MAX_POINTS = 1000  # of a series
_MAX_POINTS_IN_ALL = 10_000
_MAX_TICKS = 200  # of an axis
_MAX_BYTES = 1 << 18  # of the chart as JSON

_UNIT = re.compile(r"[(\[]([^()\[\]]+)[)\]]\s*$")


@dataclass
class Axis:
    """The x or y axis. Tick labels are those that are names rather than numbers."""

    label: str = ""
    scale: str = "linear"
    ticks: list[Any] = field(default_factory=list)
    tick_labels: list[str] = field(default_factory=list)


@dataclass
class Column:
    """Values of a series, and what makes of some of them what the axis shows."""

    values: Any
    decode: Callable[[list[Any]], list[Any]] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def part(self, part: slice) -> list[Any]:
        values = listed(self.values[part])
        return self.decode(values) if self.decode else values


@dataclass
class Series:
    """Data that belongs together; all columns but `edges` have the same length."""

    type: str
    label: str
    columns: dict[str, Column]
    orientation: str = ""


@dataclass
class Axes:
    """A system of coordinates; unknown says that it shows what is no series."""

    title: str = ""
    x: Axis | None = None
    y: Axis | None = None
    series: list[Series] = field(default_factory=list)
    unknown: bool = False


@dataclass
class Figure:
    title: str
    axes: list[Axes]


def encode(figure: Figure) -> dict[str, Any] | None:
    """The chart's JSON; None for a figure that shows nothing, or too much."""
    figure.axes = [axes for axes in figure.axes if axes.series or axes.unknown]
    if not figure.axes:
        return None
    series = sum(len(axes.series) for axes in figure.axes)
    shown = min(series, _MAX_SERIES) or 1
    points = min(_MAX_POINTS, _MAX_POINTS_IN_ALL // shown)
    while points:
        chart = _Encoder(points).figure(figure)
        if len(dumps(chart)) <= _MAX_BYTES:
            return chart
        points //= 4
    return None


class _Encoder:
    """Writes a figure with at most so many points of each series."""

    def __init__(self, points: int) -> None:
        self.points = points
        self.series_left = _MAX_SERIES
        self.values = Values()

    def figure(self, figure: Figure) -> dict[str, Any]:
        axes = [self._axes(axes) for axes in figure.axes[:_MAX_AXES]]
        title = figure.title or (axes[0]["title"] if len(axes) == 1 else None)
        return {
            "type": _common(a["type"] for a in axes),
            "title": self._text(title),
            "axes_count": len(figure.axes),
            "axes": axes,
            "truncated": self.values.cut
            or len(axes) < len(figure.axes)
            or any(a["truncated"] for a in axes),
        }

    def _axes(self, axes: Axes) -> dict[str, Any]:
        shown = axes.series[: self.series_left]
        self.series_left -= len(shown)
        series = [self._series(one) for one in shown]
        types = [one.type for one in axes.series] + ["unknown"] * axes.unknown
        return {
            "type": _common(types),
            "title": self._text(axes.title),
            "x": self._axis(axes.x),
            "y": self._axis(axes.y),
            "series_count": len(axes.series),
            "series": series,
            "truncated": len(shown) < len(axes.series)
            or any(s["truncated"] for s in series),
        }

    def _axis(self, axis: Axis | None) -> dict[str, Any] | None:
        if axis is None:
            return None
        unit = _UNIT.search(axis.label)
        described: dict[str, Any] = {
            "label": self._text(axis.label),
            "unit": self._text(unit and unit[1].strip()),
            "scale": axis.scale,
        }
        if axis.tick_labels:
            ticks, labels = axis.ticks[:_MAX_TICKS], axis.tick_labels[:_MAX_TICKS]
            described["ticks"] = [self.values.value(tick) for tick in ticks]
            described["tick_labels"] = [self.values.value(label) for label in labels]
        return described

    def _series(self, series: Series) -> dict[str, Any]:
        count = min(len(column) for column in series.columns.values())
        described: dict[str, Any] = {
            "type": series.type,
            "label": self._text(series.label),
            "count": count,
            "truncated": count > self.points,
        }
        if series.orientation:
            described["orientation"] = series.orientation
        for name, column in series.columns.items():
            part = self._part(series.type, name, count)
            described[name] = [self.values.value(v) for v in column.part(part)]
        return described

    def _part(self, kind: str, name: str, count: int) -> slice:
        """Of curves and clouds every nth point, of all else the first ones."""
        if kind in ("line", "scatter"):
            return slice(0, count, -(-count // self.points) or 1)
        return slice(0, min(count, self.points) + (name == "edges"))

    def _text(self, text: str | None) -> Any:
        return self.values.value(text) if text else None


def _common(types: Iterable[str]) -> str:
    kinds = set(types)
    return kinds.pop() if len(kinds) == 1 else "mixed" if kinds else "unknown"
