"""examples/sales.py holds the README's example as it is."""

from __future__ import annotations

from pathlib import Path

from tests.readme import README

EXAMPLES = Path(__file__).parents[4] / "examples"


def test_the_example_is_the_readmes() -> None:
    lines = (EXAMPLES / "sales.py").read_text(encoding="utf-8").splitlines()
    begin = lines.index(README.splitlines()[0])
    end = lines.index("# ---- End of the README's example.")
    assert [line for line in lines[begin:end] if "  # +" not in line] == README.splitlines()


def test_the_data_is_realistic() -> None:
    head, *rows = (EXAMPLES / "sales.csv").read_text(encoding="utf-8").splitlines()
    assert {"date", "category", "revenue"} <= set(head.split(","))
    assert len(rows) > 300
