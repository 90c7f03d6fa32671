"""Reading executions."""

from __future__ import annotations

from typing import Any

import pytest

from pandastack import CellFailed, Execution, Result


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
    assert ex.chart == "2"


def test_no_results() -> None:
    ex = execution()
    assert (ex.text, ex.png, ex.json, ex.chart) == (None, None, None, None)


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
