"""Reading executions."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pandastack import CellFailed, Chart, ChartAxis, ChartBox, Execution, Result, ServerError


def execution(*results: dict[str, Any], **fields: Any) -> Execution:
    return Execution.from_dict({"status": "ok", "results": list(results), **fields})


def shown(main: bool = False, **data: Any) -> dict[str, Any]:
    mimes = {"text": "text/plain", "png": "image/png", "html": "text/html", "json": "application/json"}
    return {"data": {mimes[name]: value for name, value in data.items()}, "is_main_result": main}


def test_one_result_for_each_object() -> None:
    ex = execution(shown(text="<Figure>", png="AAA="), shown(True, text="df", html="<table>"))
    assert [result.formats() for result in ex.results] == [
        ["text/plain", "image/png"],
        ["text/plain", "text/html"],
    ]
    assert ex.results[1].html == "<table>"
    assert ex.results[1].png is None


def test_the_main_result_comes_first_then_the_last() -> None:
    ex = execution(shown(text="a", png="1"), shown(True, text="main"), shown(text="b", png="2", html="h"))
    assert (ex.text, ex.png, ex.html, ex.svg) == ("main", "2", "h", None)


def test_no_results() -> None:
    ex = execution()
    assert (ex.text, ex.png, ex.json, ex.chart) == (None, None, None, None)


def test_a_chart() -> None:
    line = {"type": "line", "label": "Oslo", "count": 5000, "truncated": True}
    line |= {"x": ["2024-01-01", "2024-01-02"], "y": [1.5, {"$numberDouble": "NaN"}]}
    bars = {"type": "bar", "label": None, "count": 1, "truncated": False}
    bars |= {"orientation": "vertical", "categories": ["a"], "values": [2]}
    box = {"category": "a", "min": 1, "first_quartile": 2, "median": 3, "third_quartile": 4, "max": 5}
    boxes = {"type": "box", "count": 1, "boxes": [box | {"outliers": [9], "outlier_count": 1}]}
    pie = {"type": "pie", "count": 2, "categories": ["p", "q"], "shares": [0.25, 0.75]}
    x = {"label": "day", "unit": None, "scale": "categorical", "ticks": [0], "tick_labels": ["a"]}
    y = {"label": "Rain (mm)", "unit": "mm", "scale": "log"}
    result = Result(
        {
            "application/vnd.pandastack.chart+json": {
                "type": "mixed",
                "title": "Rain",
                "axes_count": 3,
                "axes": [
                    {
                        "type": "mixed",
                        "title": None,
                        "x": x,
                        "y": y,
                        "series": [line, bars],
                        "series_count": 2,
                    },
                    {"type": "box", "x": x, "y": y, "series": [boxes]},
                    {"type": "pie", "x": None, "y": None, "series": [pie]},
                ],
                "truncated": True,
            }
        }
    )
    chart = result.chart
    assert isinstance(chart, Chart)
    assert (chart.type, chart.title, chart.axes_count, chart.truncated) == ("mixed", "Rain", 3, True)
    first, second, third = chart.axes
    assert first.x == ChartAxis("day", "", "categorical", [0], ["a"])
    assert first.y == ChartAxis("Rain (mm)", "mm", "log")
    assert (first.series[0].label, first.series[0].count, first.series[0].truncated) == ("Oslo", 5000, True)
    assert first.series[0].points[0] == ("2024-01-01", 1.5)
    assert math.isnan(first.series[0].y[1])
    assert (first.series[1].label, first.series[1].points) == ("", [("a", 2)])
    assert second.series[0].boxes == [ChartBox("a", 1, 2, 3, 4, 5, [9], 1)]
    assert (third.x, third.series[0].points) == (None, [("p", 0.25), ("q", 0.75)])
    assert Execution(results=[result]).chart is not None
    with pytest.raises(ServerError):
        _ = Result({"application/vnd.pandastack.chart+json": {"type": 3}}).chart


@pytest.mark.parametrize("value", [{"a": [1, None]}, [1], "text", 0, False])
def test_json_is_a_value(value: Any) -> None:
    assert execution(shown(True, json=value)).json == value


def test_a_failed_cell() -> None:
    error = {"name": "ZeroDivisionError", "value": "division by zero", "traceback": "Traceback …\nZero…"}
    ex = execution(status="error", error=error, stdout="before")
    assert ex.error is not None
    assert (ex.error.name, ex.error.value, str(ex.error)) == (
        "ZeroDivisionError", "division by zero", "Traceback …\nZero…",
    )  # fmt: skip
    assert (ex.ok, ex.exit_code, ex.logs) == (False, 1, {"stdout": "before", "stderr": ""})
    with pytest.raises(CellFailed, match="ZeroDivisionError: division by zero") as caught:
        ex.raise_for_error()
    assert caught.value.execution is ex


def test_a_dead_kernel() -> None:
    ex = execution(status="died", error={"name": "KernelDied", "exit_code": 7}, context_restarted=True)
    assert ex.error is not None
    assert (ex.exit_code, str(ex.error), ex.context_restarted) == (7, "KernelDied", True)


def test_truncation() -> None:
    ex = execution(truncated={"stdout": {"bytes": 10**9, "kept": 1000}, "results": 2})
    assert ex.truncated is not None
    assert ex.truncated.stdout is not None
    assert (ex.truncated.stdout.bytes, ex.truncated.stdout.kept, ex.truncated.results) == (10**9, 1000, 2)


def test_a_result_shows_itself_in_a_notebook() -> None:
    result = Result.from_dict({"data": {"text/plain": "x"}, "metadata": {"text/plain": {"k": 1}}})
    assert result._repr_mimebundle_(include=None) == ({"text/plain": "x"}, {"text/plain": {"k": 1}})
