"""Reads matplotlib's figures, and so those of seaborn and pandas, as charts.

Of matplotlib nothing is imported: whoever has a figure has imported what is needed.
What is of which class is told by the classes' names.
"""

from __future__ import annotations

import functools
import sys
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from .charts import Axes, Axis, Column, Figure, Series

_NEAR = 1e-6  # of a bar's width: what touches
_MOST_POINTS = 12  # more than any line of a box has that is not its outliers


def read(figure: Any) -> Figure:
    """What a matplotlib.figure.Figure shows."""
    return Figure(
        title=figure.get_suptitle(),
        axes=[_Reader(axes).read() for axes in figure.axes if _is_chart(axes)],
    )


def _is_chart(axes: Any) -> bool:
    is_colorbar = axes.get_label() == "<colorbar>"
    return axes.get_visible() and axes.has_data() and not is_colorbar


class _Reader:
    def __init__(self, axes: Any) -> None:
        self.axes = axes
        self.x = _AxisReader(axes.xaxis)
        self.y = _AxisReader(axes.yaxis)
        self.legend = _legend(axes)
        self.spans: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
        self.accessories: set[int] = set()  # ids of lines that are part of something

    def read(self) -> Axes:
        series = self._series() if self.axes.name == "rectilinear" else []
        is_pie = bool(series) and all(one.type == "pie" for one in series)
        return Axes(
            title=self._title(),
            x=None if is_pie else self.x.axis(),
            y=None if is_pie else self.y.axis(),
            series=series,
            unknown=not series or self._has_unknown(),
        )

    def _series(self) -> list[Series]:
        found = [*self._pies(), *self._containers(), *self._stairs(), *self._boxes()]
        return [*found, *self._lines(), *self._scatters()]  # of lines what is left

    def _title(self) -> str:
        titles = (self.axes.get_title(loc) for loc in ("center", "left", "right"))
        return next((title for title in titles if title), "")

    def _has_unknown(self) -> bool:
        """Whether there are pictures, meshes, contours: colours that mean values."""
        mapped = (c for c in self.axes.collections if _name(c) != "PathCollection")
        return bool(self.axes.images) or any(c.get_array() is not None for c in mapped)

    def _label(self, *artists: Any) -> str:
        """The label that one of artists has, or what the last one's colour means."""
        for artist in artists:
            label = str(artist.get_label() or "")
            if label and not label.startswith("_"):
                return label
        return self.legend.get(_colour(artists[-1]), "")

    # Bars

    def _containers(self) -> Iterator[Series]:
        for container in self.axes.containers:
            name = _name(container)
            if name == "BarContainer" and len(container.patches):
                yield self._bars(container)
            elif name == "ErrorbarContainer":
                data, caps, _ = container.lines
                self.accessories.update(id(cap) for cap in caps)
                if data is not None:
                    yield self._line(data, self._label(container, data))
                    self.accessories.add(id(data))
            elif name == "StemContainer":
                self.accessories.add(id(container.baseline))

    def _bars(self, container: Any) -> Series:
        bars = [bar for bar in container.patches if _name(bar) == "Rectangle"]
        flat = container.orientation == "horizontal"
        starts = [bar.get_y() if flat else bar.get_x() for bar in bars]
        widths = [bar.get_height() if flat else bar.get_width() for bar in bars]
        values = [bar.get_width() if flat else bar.get_height() for bar in bars]
        bases = [bar.get_x() if flat else bar.get_y() for bar in bars]
        spans = [
            (start, start + width) for start, width in zip(starts, widths, strict=True)
        ]
        along, across = (self.y, self.x) if flat else (self.x, self.y)
        if not along.names and _are_bins(spans):
            edges = [start for start, _ in spans] + [spans[-1][1]]
            columns = {"edges": Column(edges, along.decode)}
        else:
            middles = [(start + end) / 2 for start, end in spans]
            columns = {"categories": along.categories(middles)}
            self.spans[flat].extend((min(span), max(span)) for span in spans)
        columns["values"] = Column(values)
        if any(bases):
            columns["bases"] = Column(bases, across.decode)
        return Series(
            type="histogram" if "edges" in columns else "bar",
            label=self._label(container, bars[0]),
            columns=columns,
            orientation="horizontal" if flat else "vertical",
        )

    def _stairs(self) -> Iterator[Series]:
        for patch in self.axes.patches:
            if _name(patch) == "StepPatch":
                values, edges, _ = patch.get_data()
                flat = patch.orientation == "horizontal"
                decode = self.y.decode if flat else self.x.decode
                columns = {"edges": Column(edges, decode), "values": Column(values)}
                way = patch.orientation
                yield Series("histogram", self._label(patch), columns, way)

    # Pies

    def _pies(self) -> Iterator[Series]:
        rings: dict[Any, list[Any]] = {}
        for patch in self.axes.patches:
            if _name(patch) == "Wedge":
                rings.setdefault((patch.r, patch.width), []).append(patch)
        for wedges in rings.values():
            shares = [(wedge.theta2 - wedge.theta1) / 360 for wedge in wedges]
            labels = [self._label(wedge) for wedge in wedges]
            columns = {"categories": Column(labels), "shares": Column(shares)}
            yield Series("pie", "", columns)

    # Box plots

    def _boxes(self) -> Iterator[Series]:
        """Boxes as bxp draws them: (box,) whisker, whisker, (caps,) median, (rest)."""
        bodies = [p for p in self.axes.patches if _name(p) == "PathPatch"]
        found = list(_find_boxes(list(self.axes.lines)))
        if len(bodies) != len(found):
            bodies = [box.body for box in found]
        groups: dict[tuple[str, bool], list[_Box]] = {}
        for box, body in zip(found, bodies, strict=True):
            self.accessories.update(id(line) for line in box.lines)
            label = "" if body is None else self._label(body)
            groups.setdefault((label, box.flat), []).append(box)
        for (label, flat), boxes in groups.items():
            along, across = (self.y, self.x) if flat else (self.x, self.y)
            places = along.categories([box.at for box in boxes])
            names = places.part(slice(len(boxes)))
            described = [
                box.described(name, across.decode)
                for box, name in zip(boxes, names, strict=True)
            ]
            way = "horizontal" if flat else "vertical"
            yield Series("box", label, {"boxes": Column(described)}, way)

    # Lines and points

    def _lines(self) -> Iterator[Series]:
        for line in self.axes.lines:
            if id(line) not in self.accessories and self._has_data(line):
                yield self._line(line, self._label(line))

    def _has_data(self, line: Any) -> bool:
        """Not what only marks a place: empty lines, axhline, bars' errors."""
        if not line.get_visible() or not len(line.get_xdata(orig=False)):
            return False
        transform = line.get_transform()
        if not all(transform.contains_branch_seperately(self.axes.transData)):
            return False
        if not str(line.get_label()).startswith("_"):
            return True
        return not (self._is_error(line, False) or self._is_error(line, True))

    def _is_error(self, line: Any, flat: bool) -> bool:
        """Whether it lies within one bar, or one name of the axis."""
        along = line.get_ydata(orig=False) if flat else line.get_xdata(orig=False)
        if len(along) > 100:
            return False
        values = [v for v in map(float, along) if v == v]
        if not values:
            return False
        low, high = min(values), max(values)
        axis = self.y if flat else self.x
        if axis.is_text and len(along) + len(axis.names) > 2 and high - low < 1:
            return round(low) == round(high)
        return any(a <= low and high <= b for a, b in self.spans[flat])

    def _line(self, line: Any, label: str) -> Series:
        columns = {
            "x": self.x.of_line(line.get_xdata(orig=True), line.get_xdata(orig=False)),
            "y": self.y.of_line(line.get_ydata(orig=True), line.get_ydata(orig=False)),
        }
        return Series("line" if _is_drawn(line) else "scatter", label, columns)

    def _scatters(self) -> Iterator[Series]:
        for points in self.axes.collections:
            if _name(points) != "PathCollection" or not points.get_visible():
                continue
            offsets = _told_apart(points.get_offsets())
            if not len(offsets):
                continue
            for label, which in self._groups(points, len(offsets)):
                columns = {
                    "x": Column(offsets[which, 0], self.x.decode),
                    "y": Column(offsets[which, 1], self.y.decode),
                }
                yield Series("scatter", label, columns)

    def _groups(self, points: Any, count: int) -> Iterator[tuple[str, Any]]:
        """A scatter's points by what their colours mean in the legend."""
        colours = points.get_facecolors()
        if len(colours) != count or not self.legend or points.get_array() is not None:
            yield self._label(points), slice(None)
            return
        groups: dict[str, list[int]] = {}
        for i, colour in enumerate(colours.tolist()):
            groups.setdefault(self.legend.get(_rounded(colour), ""), []).append(i)
        yield from groups.items()


class _AxisReader:
    """An axis: what its numbers stand for."""

    def __init__(self, axis: Any) -> None:
        self._axis = axis
        classes = " ".join(c.__name__ for c in type(_converter(axis)).__mro__)
        self.is_text = self._is_categorical = "StrCategory" in classes
        self._is_period = "Period" in classes  # pandas' own
        self._is_date = "Date" in classes or self._is_period

    @functools.cached_property
    def names(self) -> dict[float, str]:
        """By position, labels of ticks that were given or are categories."""
        formatter = self._axis.get_major_formatter()
        if not _has_names(formatter, self._axis.get_major_locator()):
            return {}
        ticks = self._axis.get_majorticklocs()
        labels = formatter.format_ticks(ticks)
        pairs = sorted(zip(map(float, ticks), map(str, labels), strict=False))
        return {tick: label for tick, label in pairs if label}

    @functools.cached_property
    def _texts(self) -> dict[float, str]:
        """By position, the categories that matplotlib keeps, shown at ticks or not."""
        return {i: text for text, i in self._axis.units._mapping.items()}

    def axis(self) -> Axis:
        ticks = list(self.names)
        return Axis(
            label=self._axis.get_label_text(),
            scale=self._scale(),
            ticks=ticks if self.is_text else self.decode(ticks),
            tick_labels=list(self.names.values()),
        )

    def _scale(self) -> str:
        if self._is_categorical:
            return "categorical"
        return "datetime" if self._is_date else str(self._axis.get_scale())

    def of_line(self, given: Any, numbers: Any) -> Column:
        """A line keeps what it was given: exact dates, integers."""
        if self.is_text or self._is_period or len(given) != len(numbers):
            return Column(numbers, self.decode)
        return Column(given)

    def decode(self, numbers: list[Any]) -> list[Any]:
        """The dates or names that matplotlib has numbers for."""
        if self.is_text:
            return _nearest(self._texts, numbers)
        if self._is_period:
            freq = getattr(self._axis.axes, "freq", None)
            return [_period(n, freq) for n in numbers] if freq else numbers
        return _dates(numbers) if self._is_date else numbers

    def categories(self, numbers: list[float]) -> Column:
        """The names at numbers, if each has its own, else what they stand for."""
        if self.is_text or not self.names:
            return Column(numbers, self.decode)
        names = _nearest(self.names, numbers)
        if len(set(names)) < len(names):
            return Column(numbers, self.decode)
        self._is_categorical = True
        return Column(names)


def _nearest(names: dict[float, str], numbers: list[Any]) -> list[Any]:
    middles = [(a + b) / 2 for a, b in pairwise(names)]
    texts = list(names.values())
    return [
        texts[bisect(middles, n)] if n is not None and n == n else None for n in numbers
    ]


@dataclass
class _Box:
    """One box of a box plot by the lines that it is drawn with."""

    body: Any  # the box, if it is a line
    lower: list[tuple[float, float]]  # along and across the box: from q1 to the end
    upper: list[tuple[float, float]]
    median: float
    outliers: list[float]
    flat: bool
    lines: list[Any]

    @property
    def at(self) -> float:
        return self.lower[0][0]

    def described(self, category: Any, decode: Any) -> dict[str, Any]:
        numbers = [self.lower[1][1], self.lower[0][1], self.median]
        numbers += [self.upper[0][1], self.upper[1][1]]
        low, first, median, third, high = decode(numbers)
        return {
            "category": category,
            "min": low,
            "first_quartile": first,
            "median": median,
            "third_quartile": third,
            "max": high,
            "outliers": decode(self.outliers),
            "outlier_count": len(self.outliers),
        }


def _find_boxes(lines: Any) -> Iterator[_Box]:
    """Boxes among lines, in the order in which bxp draws them:

    the box, two whiskers, two caps, the median, the mean, the outliers, of
    which whiskers and median are always there.
    """
    points = [line.get_xydata()[:_MOST_POINTS].tolist() for line in lines]
    i = 0
    while i + 2 < len(lines):
        box = None
        for flat in (False, True):
            box = box or _box_at(i, lines, points, flat)
        if box is not None:
            yield box
        i += len(box.lines) - (box.body is not None) if box else 1


def _box_at(i: int, lines: Any, points: list[Any], flat: bool) -> _Box | None:
    """The box whose whiskers are the lines i and i + 1."""

    def turned(k: int) -> list[tuple[float, float]]:
        return [(y, x) if flat else (x, y) for x, y in points[k]]

    lower, upper = turned(i), turned(i + 1)
    if len(lower) != 2 or len(upper) != 2:
        return None
    at, first, third = lower[0][0], lower[0][1], upper[0][1]
    if {x for x, _ in lower + upper} != {at} or not first <= third:
        return None
    bars = []  # caps and median
    end = i + 2
    while end < len(lines) and _is_bar(turned(end), at):
        bars.append(turned(end)[0][1])
        end += 1
    middle = bars[2:3] or bars[:1]
    if not middle or not first <= middle[0] <= third:
        return None
    outliers: list[float] = []
    while end < len(lines) and _are_marks(lines[end], at, flat):
        marks = lines[end].get_xydata()[:, 0 if flat else 1]
        outliers = marks.tolist()  # the last ones; the mean comes before
        end += 1
    body = lines[i - 1] if i and len(points[i - 1]) in (5, 11) else None
    parts = [*lines[i:end]] if body is None else [body, *lines[i:end]]
    outliers = [v for v in outliers if not lower[1][1] <= v <= upper[1][1]]
    return _Box(body, lower, upper, middle[0], outliers, flat, parts)


def _is_bar(points: list[tuple[float, float]], at: float) -> bool:
    """Whether it is a short line across a box at this place."""
    if len(points) != 2:
        return False
    (start, value), (end, same) = points
    return value == same and start < at < end


def _are_marks(line: Any, at: float, flat: bool) -> bool:
    places = line.get_xydata()[:, 1 if flat else 0]
    return not _is_drawn(line) and bool((places == at).all())


def _is_drawn(line: Any) -> bool:
    """Whether a line is more than its markers."""
    return line.get_linestyle() not in ("None", "none", "", " ")


def _told_apart(offsets: Any) -> Any:
    """Points with their NaN and infinities, which matplotlib masks as missing."""
    if not hasattr(offsets, "mask"):
        return offsets
    numbers = offsets.data
    return offsets if (numbers - numbers == 0).all() else numbers


def _are_bins(spans: list[tuple[float, float]]) -> bool:
    """Whether bars touch, as those of a histogram; not if each is of a whole number."""
    if len(spans) < 2:
        return False
    for (start, end), (following, _) in pairwise(spans):
        if abs(end - following) > _NEAR * abs(end - start):
            return False
    return not all(
        abs(end - start - 1) < _NEAR and abs((start + end) / 2 % 1) < _NEAR
        for start, end in spans
    )


def _legend(axes: Any) -> dict[Any, str]:
    """The texts of the legend by colour, as far as a colour has one text."""
    legends = [axes.get_legend(), *axes.figure.legends]
    texts: dict[Any, str] = {}
    for legend in filter(None, legends[:1] if legends[0] else legends):
        pairs = zip(legend.legend_handles, legend.get_texts(), strict=False)
        for handle, text in pairs:
            colour = _colour(handle)
            known = texts.get(colour, text.get_text())
            texts[colour] = text.get_text() if known == text.get_text() else ""
    return texts


def _colour(artist: Any) -> Any:
    """The colour that tells one series from another, without its opacity."""
    if _name(artist) == "Line2D":
        drawn = _is_drawn(artist)
        colour = artist.get_color() if drawn else artist.get_markerfacecolor()
    elif hasattr(artist, "get_facecolor"):
        colour = artist.get_facecolor()
    else:
        return None
    rgba = sys.modules["matplotlib.colors"].to_rgba_array(colour)
    return _rounded(rgba[0].tolist()) if len(rgba) else None


def _rounded(colour: list[float]) -> tuple[float, ...]:
    return tuple(round(part, 4) for part in colour[:3])


def _converter(axis: Any) -> Any:
    """What makes numbers of the axis's values; a method since matplotlib 3.10."""
    return axis.get_converter() if hasattr(axis, "get_converter") else axis.converter


def _has_names(formatter: Any, locator: Any) -> bool:
    """Whether the labels of ticks are texts, not numbers that are written."""
    kind = _name(formatter)
    if kind == "FuncFormatter":  # what set_xticklabels leaves at fixed places
        is_partial = isinstance(formatter.func, functools.partial)
        return is_partial and _name(locator) == "FixedLocator"
    return kind in ("FixedFormatter", "StrCategoryFormatter")


def _dates(numbers: list[Any]) -> list[Any]:
    """Dates of days since matplotlib's epoch, which are exact to some microseconds."""
    epoch = datetime.fromisoformat(sys.modules["matplotlib.dates"].get_epoch())
    return [
        epoch + timedelta(microseconds=round(n * 864e7) * 10)
        if n is not None and n == n
        else None
        for n in numbers
    ]


def _period(ordinal: Any, freq: Any) -> Any:
    if ordinal is None or ordinal != ordinal:
        return None
    return sys.modules["pandas"].Period(ordinal=round(ordinal), freq=freq)


def _name(thing: Any) -> str:
    return type(thing).__name__
