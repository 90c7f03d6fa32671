"""What a figure of matplotlib or plotly shows, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from ._fields import Fields
from ._table import decoded

MIME = "application/vnd.pandastack.chart+json"


@dataclass(frozen=True)
class ChartAxis:
    """The x or y axis.

    Attributes:
        unit: What is in brackets at the end of the label.
        scale: ``linear``, ``datetime``, ``categorical``, or another of the library's: ``log``, ``symlog``, …
        ticks: Where `tick_labels` are; both are empty unless the labels are names.
    """

    label: str = ""
    unit: str = ""
    scale: str = "linear"
    ticks: list[Any] = field(default_factory=list)
    tick_labels: list[Any] = field(default_factory=list)

    @classmethod
    def from_dict(cls, data: object) -> ChartAxis:
        """Reads the JSON of the representation."""
        fields = Fields(data, "a chart's axis")
        return cls(
            label=fields.text("label", ""),
            unit=fields.text("unit", ""),
            scale=fields.text("scale", "linear"),
            ticks=fields.items("ticks", decoded),
            tick_labels=fields.items("tick_labels", decoded),
        )


@dataclass(frozen=True)
class ChartBox:
    """One box of a box plot. `min` and `max` are the ends of its whiskers."""

    category: Any
    min: Any
    first_quartile: Any
    median: Any
    third_quartile: Any
    max: Any
    outliers: list[Any] = field(default_factory=list)
    outlier_count: int = 0

    @classmethod
    def from_dict(cls, data: object) -> ChartBox:
        """Reads the JSON of the representation."""
        fields = Fields(data, "a chart's box")
        values: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
        return cls(
            category=decoded(values.get("category")),
            min=decoded(values.get("min")),
            first_quartile=decoded(values.get("first_quartile")),
            median=decoded(values.get("median")),
            third_quartile=decoded(values.get("third_quartile")),
            max=decoded(values.get("max")),
            outliers=fields.items("outliers", decoded),
            outlier_count=fields.integer("outlier_count", 0),
        )


@dataclass(frozen=True)
class ChartSeries:
    """Data that belongs together. The columns that its type does not have are empty.

    Attributes:
        type: ``line``, ``scatter``, ``bar``, ``histogram``, ``pie`` or ``box``.
        count: Of the whole; the columns have at most 1,000 of them.
        truncated: Whether some are missing: of lines and points every nth is here, of others the first ones.
        orientation: ``vertical`` or ``horizontal``, of bars, histograms and boxes.
        x: Of lines and points.
        y: Of lines and points.
        categories: Of bars, where they stand; of pies.
        values: Of bars and histograms, and of pies where the library keeps them.
        bases: Where bars begin, if not at zero.
        edges: Of a histogram's bins, one more than `values`.
        sample: What plotly is to put into bins, instead of `edges` and `values`.
        shares: Of a pie, the parts of the circle.
        boxes: Of a box plot.
    """

    type: str
    label: str = ""
    count: int = 0
    truncated: bool = False
    orientation: str = ""
    x: list[Any] = field(default_factory=list)
    y: list[Any] = field(default_factory=list)
    categories: list[Any] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    bases: list[Any] = field(default_factory=list)
    edges: list[Any] = field(default_factory=list)
    sample: list[Any] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    boxes: list[ChartBox] = field(default_factory=list)

    @classmethod
    def from_dict(cls, data: object) -> ChartSeries:
        """Reads the JSON of the representation."""
        fields = Fields(data, "a chart's series")
        columns = ("x", "y", "categories", "values", "bases", "edges", "sample", "shares")
        return cls(
            type=fields.text("type"),
            label=fields.text("label", ""),
            count=fields.integer("count", 0),
            truncated=fields.flag("truncated", False),
            orientation=fields.text("orientation", ""),
            boxes=fields.items("boxes", ChartBox.from_dict),
            **{name: fields.items(name, decoded) for name in columns},
        )

    @property
    def points(self) -> list[tuple[Any, Any]]:
        """Pairs: x and y; or categories and values, of a pie its shares if it has no values."""
        if self.x:
            return list(zip(self.x, self.y))
        return list(zip(self.categories, self.values or self.shares))


@dataclass(frozen=True)
class ChartAxes:
    """A system of coordinates in a figure and what it shows.

    Attributes:
        type: That of its series; ``mixed`` if they differ, ``unknown`` for pictures, 3D and the like.
        x: None where there is none: a pie's.
        series_count: Of the whole; a chart has at most 200 `series`.
    """

    type: str
    title: str = ""
    x: Optional[ChartAxis] = None
    y: Optional[ChartAxis] = None
    series: list[ChartSeries] = field(default_factory=list)
    series_count: int = 0
    truncated: bool = False

    @classmethod
    def from_dict(cls, data: object) -> ChartAxes:
        """Reads the JSON of the representation."""
        fields = Fields(data, "a chart's axes")
        return cls(
            type=fields.text("type"),
            title=fields.text("title", ""),
            x=fields.optional("x", ChartAxis.from_dict),
            y=fields.optional("y", ChartAxis.from_dict),
            series=fields.items("series", ChartSeries.from_dict),
            series_count=fields.integer("series_count", 0),
            truncated=fields.flag("truncated", False),
        )


@dataclass(frozen=True)
class Chart:
    """What a figure of matplotlib (seaborn, pandas) or plotly shows.

    Values are JSON's: None is missing, dates are ISO 8601; NaN and the infinities are floats.

    Attributes:
        type: That of its axes; ``mixed`` if they differ.
        title: The figure's, or that of its only axes.
        axes: What is empty is left out; at most 32.
        axes_count: Of the whole.
        truncated: Whether anything of the whole is missing here.
    """

    type: str
    title: str = ""
    axes: list[ChartAxes] = field(default_factory=list)
    axes_count: int = 0
    truncated: bool = False

    @classmethod
    def from_dict(cls, data: object) -> Chart:
        """Reads the JSON of the representation."""
        fields = Fields(data, "a chart")
        return cls(
            type=fields.text("type"),
            title=fields.text("title", ""),
            axes=fields.items("axes", ChartAxes.from_dict),
            axes_count=fields.integer("axes_count", 0),
            truncated=fields.flag("truncated", False),
        )
