"""Reads plotly's figures as charts: their data and layout as dictionaries.

plotly draws in the browser, and counts, sums and quartiles are made there. Those that
its documentation defines are made here too; the bins of a histogram are not among them.
"""

from __future__ import annotations

import base64
import math
import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .charts import Axes, Axis, Column, Figure, Series
from .values import listed

_DTYPES = {
    "i1": "b", "u1": "B", "i2": "h", "u2": "H",
    "i4": "i", "u4": "I", "f4": "f", "f8": "d",
}  # fmt: skip
_DATE = re.compile(r"\d{4}-\d\d?(-\d\d?)?([ T].*)?$")
_SCALES = {
    "date": "datetime",
    "category": "categorical",
    "multicategory": "categorical",
}
_MAX_CATEGORIES = 1000
_LOOKED_AT = 100  # values that tell what an axis is

_CARTESIAN = {
    "bar", "box", "candlestick", "contour", "funnel", "heatmap", "histogram",
    "histogram2d", "histogram2dcontour", "image", "ohlc", "scatter", "scattergl",
    "violin", "waterfall",
}  # fmt: skip

Trace = Mapping[str, Any]


def read(figure: Mapping[str, Any]) -> Figure:
    """What a figure shows that was made a dictionary."""
    layout = figure.get("layout") or {}
    groups: dict[Any, list[Trace]] = {}
    for i, trace in enumerate(figure.get("data") or ()):
        if trace.get("visible", True) is True:
            groups.setdefault(_place(i, trace), []).append(trace)
    axes = [_axes(place, traces, layout) for place, traces in groups.items()]
    return Figure(_text(layout.get("title")), axes)


def _place(i: int, trace: Trace) -> Any:
    """What traces that are drawn together have in common."""
    for kind in ("scene", "subplot", "geo"):
        if kind in trace:
            return trace[kind]
    if trace.get("type", "scatter") in _CARTESIAN:
        return trace.get("xaxis", "x"), trace.get("yaxis", "y")
    return i


def _axes(place: Any, traces: list[Trace], layout: Mapping[str, Any]) -> Axes:
    if not isinstance(place, tuple):
        pies = [_pie(trace) for trace in traces if trace.get("type") == "pie"]
        title = _text(traces[0].get("title"))
        return Axes(title=title, series=pies, unknown=not pies)
    x, y = (layout.get(f"{name[0]}axis{name[1:]}") or {} for name in place)
    axes = Axes(title=_subplot_title(x, y, layout))
    along: dict[str, list[Any]] = {"x": [], "y": []}
    for trace in traces:
        reader = _READERS.get(trace.get("type", "scatter"))
        trace = {**trace, "x": _column(trace, "x"), "y": _column(trace, "y")}
        for name, values in along.items():
            values.append(trace[name])
        if reader is None:
            axes.unknown = True
        else:
            axes.series.append(reader(trace))
    axes.x, axes.y = _axis(x, along["x"]), _axis(y, along["y"])
    return axes


# Axes


def _axis(layout: Mapping[str, Any], columns: list[Any]) -> Axis:
    kind = layout.get("type") or "-"
    scale = _SCALES.get(kind, kind)
    columns = [column for column in columns if column is not None and len(column)]
    if scale == "-":
        scale = _scale_of(columns)
    axis = Axis(_text(layout.get("title")), scale)
    texts, places = _values(layout.get("ticktext")), _values(layout.get("tickvals"))
    if texts is not None and places is not None:
        axis.ticks, axis.tick_labels = listed(places), listed(texts)
    elif scale == "categorical":
        axis.tick_labels = _categories(layout, columns)
        axis.ticks = list(range(len(axis.tick_labels)))
    return axis


def _scale_of(columns: list[Any]) -> str:
    """What plotly makes of an axis whose type is not said."""
    values = (v for column in columns for v in listed(column[:_LOOKED_AT]))
    first = next((v for v in values if v is not None and v == v), None)
    if isinstance(first, (list, tuple)):
        return "categorical"
    if hasattr(first, "isoformat"):
        return "datetime"
    if not isinstance(first, (str, bool)):
        return "linear"
    return "datetime" if _DATE.match(str(first)) else _scale_of_text(first)


def _scale_of_text(text: Any) -> str:
    try:
        float(str(text))
    except ValueError:
        return "categorical"
    return "linear"


def _categories(layout: Mapping[str, Any], columns: list[Any]) -> list[Any]:
    names: dict[Any, None] = dict.fromkeys(_values(layout.get("categoryarray")) or ())
    for column in columns:
        for value in listed(column[:_MAX_CATEGORIES]):
            names[tuple(value) if isinstance(value, list) else value] = None
    return [name for name in names if name is not None]


def _subplot_title(
    x: Mapping[str, Any], y: Mapping[str, Any], layout: Mapping[str, Any]
) -> str:
    """make_subplots writes titles as annotations, over the middle of a subplot."""
    if "overlaying" in y:
        return ""
    (left, right), (_, top) = x.get("domain", (0, 1)), y.get("domain", (0, 1))
    for note in layout.get("annotations") or ():
        if note.get("xref") == note.get("yref") == "paper" and not note.get(
            "textangle"
        ):
            off = abs(note.get("x", -1) - (left + right) / 2) + abs(
                note.get("y", -1) - top
            )
            if off < 1e-6:
                return str(note.get("text") or "")
    return ""


# Series


def _xy(trace: Trace) -> Series:
    x, y = _both(trace)
    mode = trace.get("mode") or "lines"  # with markers, where they are few
    is_line = "lines" in mode or mode == "none"
    kind = "line" if is_line else "scatter"
    return Series(kind, _name(trace), {"x": Column(x), "y": Column(y)})


def _bar(trace: Trace) -> Series:
    x, y = _both(trace)
    flat = trace.get("orientation") == "h"
    categories, values = (y, x) if flat else (x, y)
    columns = {"categories": Column(categories), "values": Column(values)}
    base = trace.get("base")
    if base is not None:
        many = isinstance(base, (list, tuple, Mapping)) or hasattr(base, "tolist")
        columns["bases"] = Column(_values(base) if many else [base] * len(values))
    return Series("bar", _name(trace), columns, _way(flat))


def _histogram(trace: Trace) -> Series:
    """Of names their bars, of numbers what is to be put into bins."""
    x, y = trace["x"], trace["y"]
    flat = trace.get("orientation") == "h" or x is None
    sample, weights = (y, x) if flat else (x, y)
    sample = () if sample is None else sample
    is_plain = not (
        trace.get("histnorm") or (trace.get("cumulative") or {}).get("enabled")
    )
    if is_plain and len(sample) and _scale_of([sample]) == "categorical":
        bars = _aggregated(listed(sample), weights, trace.get("histfunc", "count"))
        columns = {
            "categories": Column(list(bars)),
            "values": Column(list(bars.values())),
        }
        return Series("bar", _name(trace), columns, _way(flat))
    return Series("histogram", _name(trace), {"sample": Column(sample)}, _way(flat))


_FUNCTIONS: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "sum": sum,
    "min": min,
    "max": max,
    "avg": lambda values: sum(values) / len(values),
}


def _aggregated(names: list[Any], weights: Any, function: str) -> dict[Any, Any]:
    """The bar of each name, in the order in which the names come."""
    if weights is None or function == "count":
        values = names
    else:
        values = [_number(value) for value in listed(weights)]
    groups: dict[Any, list[Any]] = {}
    for name, value in zip(names, values, strict=False):
        if name is not None and value is not None and value == value:
            groups.setdefault(name, []).append(value)
    return {name: _FUNCTIONS[function](group) for name, group in groups.items()}


def _number(value: Any) -> Any:
    """As plotly.js takes it: a text may be a number; what is none does not count."""
    if isinstance(value, (int, float)):
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _pie(trace: Trace) -> Series:
    labels, values = _values(trace.get("labels")), _values(trace.get("values"))
    if labels is None:
        labels = [str(i) for i in range(len(values or ()))]
    sums = _aggregated(listed(labels), values, "count" if values is None else "sum")
    total = sum(sums.values()) or 1
    columns = {
        "categories": Column(list(sums)),
        "values": Column(list(sums.values())),
        "shares": Column([value / total for value in sums.values()]),
    }
    return Series("pie", _name(trace), columns)


def _box(trace: Trace) -> Series:
    x, y = trace["x"], trace["y"]
    if trace.get("hoveron") == "points" and x is not None and y is not None:
        return _xy({**trace, "mode": "markers"})  # plotly.express.strip: no box is seen
    given = {name: _values(trace.get(name)) for name in _GIVEN}
    of_samples = given["q1"] is None
    flat = trace.get("orientation", "h" if (y is None) is of_samples else "v") == "h"
    names, sample = (y, x) if flat else (x, y)
    if of_samples:
        samples = _samples(names, sample, trace)
        boxes = [
            _statistics(name, values, trace)
            for name, values in samples.items()
            if values
        ]
    else:
        boxes = _given_boxes(names, given)
    return Series("box", _name(trace), {"boxes": Column(boxes)}, _way(flat))


_GIVEN = {
    "lowerfence": "min",
    "q1": "first_quartile",
    "median": "median",
    "q3": "third_quartile",
    "upperfence": "max",
}


def _given_boxes(names: Any, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    boxes = []
    for i in range(len(given["q1"])):
        numbers = {_GIVEN[k]: v[i] for k, v in given.items() if v is not None}
        numbers.setdefault("min", numbers["first_quartile"])
        numbers.setdefault("max", numbers["third_quartile"])
        category = names[i] if names is not None and i < len(names) else None
        boxes.append(
            {"category": category, **numbers, "outliers": [], "outlier_count": 0}
        )
    return boxes


def _samples(names: Any, sample: Any, trace: Trace) -> dict[Any, list[float]]:
    values = [] if sample is None else [_number(v) for v in listed(sample)]
    if names is None:
        return {trace.get("name") or None: [v for v in values if _is_number(v)]}
    samples: dict[Any, list[float]] = {}
    for name, value in zip(listed(names), values, strict=False):
        if _is_number(value):
            samples.setdefault(name, []).append(value)
    return samples


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and value == value


def _statistics(category: Any, sample: list[float], trace: Trace) -> dict[str, Any]:
    """A box as plotly.js makes it of a sample."""
    ordered = _sorted(sample)
    first, third = _quartiles(ordered, trace.get("quartilemethod", "linear"))
    reach = 1.5 * (third - first)
    start = bisect_left(ordered, first - reach)
    end = bisect_right(ordered, third + reach)
    if trace.get("boxpoints", True) is False:
        start, end = 0, len(ordered)  # then the whiskers end at the last values
    outliers = ordered[:start] + ordered[end:]
    return {
        "category": category,
        "min": min(first, ordered[start]),
        "first_quartile": first,
        "median": _quantile(ordered, 0.5),
        "third_quartile": third,
        "max": max(third, ordered[end - 1]),
        "outliers": outliers,
        "outlier_count": len(outliers),
    }


def _quartiles(ordered: Sequence[float], method: str) -> tuple[float, float]:
    if method == "linear":
        return _quantile(ordered, 0.25), _quantile(ordered, 0.75)
    half = len(ordered) // 2
    inner = (
        len(ordered) % 2 if method == "inclusive" else 0
    )  # the median in both halves
    lower, upper = ordered[: half + inner], ordered[len(ordered) - half - inner :]
    return _quantile(lower or ordered, 0.5), _quantile(upper or ordered, 0.5)


def _quantile(ordered: Sequence[float], q: float) -> float:
    """Between the two nearest values, each at the middle of its share."""
    place = min(max(q * len(ordered) - 0.5, 0), len(ordered) - 1)
    low = ordered[int(place)]
    high = ordered[min(int(place) + 1, len(ordered) - 1)]
    return low + (high - low) * (place % 1)


def _sorted(values: list[float]) -> list[float]:
    numpy = sys.modules.get("numpy")
    return (
        numpy.sort(values).tolist() if numpy and len(values) > 1000 else sorted(values)
    )


_READERS: dict[str, Callable[[Trace], Series]] = {
    "scatter": _xy,
    "scattergl": _xy,
    "bar": _bar,
    "histogram": _histogram,
    "box": _box,
}


# Parts of traces


def _both(trace: Trace) -> tuple[Any, Any]:
    """x and y, of which one may be left to count."""
    x, y = trace["x"], trace["y"]
    x = _counted(trace, "x", y) if x is None else x
    y = _counted(trace, "y", x) if y is None else y
    return x, y


def _counted(trace: Trace, name: str, other: Any) -> Any:
    start, step = trace.get(f"{name}0", 0), trace.get(f"d{name}", 1)
    count = range(len(other or ()) if other is None else len(other))
    if (start, step) == (0, 1) or not isinstance(start, (int, float)):
        return count
    return [start + step * i for i in count]


def _column(trace: Trace, name: str) -> Any:
    """x or y of a trace. Those of two levels become pairs."""
    values = _values(trace.get(name))
    if values is not None and len(values) == 2 and _is_level(values[0]):
        levels = [listed(_values(level)) for level in values]
        return list(zip(*levels, strict=False))
    return values


def _is_level(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or getattr(value, "ndim", 0) == 1


def _values(value: Any) -> Any:
    """An array: a sequence, or plotly's binary form of one."""
    if isinstance(value, Mapping):
        data: Any = memoryview(base64.b64decode(value["bdata"]))
        return data.cast(_DTYPES[value["dtype"].lstrip("<=|")])
    return value


def _name(trace: Trace) -> str:
    return str(trace.get("name") or "")


def _text(title: Any) -> str:
    text = title.get("text") if isinstance(title, Mapping) else title
    return str(text or "")


def _way(flat: bool) -> str:
    return "horizontal" if flat else "vertical"
