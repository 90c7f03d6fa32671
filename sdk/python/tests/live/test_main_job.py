"""The README's example, and real data through a session, compared with pandas here."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from pandastack import CodeContext, Sandbox
from tests.live.pictures import picture, table

EXAMPLES = Path(__file__).parents[4] / "examples"


def test_the_example(tmp_path: Path) -> None:
    before = {sandbox.id for sandbox in Sandbox.list()}
    chart = tmp_path / "chart.png"
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / "sales.py"), str(chart)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    assert run.returncode == 0, run.stderr
    assert "<table" in run.stdout
    assert "Bakery" in run.stdout
    for line in ("Downloaded: summary.xlsx", "Start: ", "Isolation: "):
        assert line in run.stdout
    Image.open(chart).verify()
    assert {sandbox.id for sandbox in Sandbox.list()} <= before, "the example left its sandbox behind"


@pytest.fixture(scope="module")
def sales(sandbox: Sandbox, context: CodeContext) -> pd.DataFrame:
    sandbox.filesystem.upload(EXAMPLES / "sales.csv", "/workspace/sales.csv")
    context.run_code("import pandas as pd", check=True)
    context.run_code("df = pd.read_csv('/workspace/sales.csv')", check=True)
    return pd.read_csv(EXAMPLES / "sales.csv")


def test_the_table_equals_pandas_here(context: CodeContext, sales: pd.DataFrame) -> None:
    ex = context.run_code("df.describe()")
    assert len(ex.results) == 1
    assert ex.results[0].is_main_result
    (head, *rows) = table(ex.results[0].html)
    here = sales.describe()
    assert head[1:] == list(here.columns)
    assert [row[0] for row in rows] == list(here.index)
    for row, values in zip(rows, here.to_numpy().tolist()):
        assert [float(cell) for cell in row[1:]] == pytest.approx(values, abs=1e-6, nan_ok=True)


def test_the_chart_is_a_picture(context: CodeContext, sales: pd.DataFrame) -> None:
    ex = context.run_code("import matplotlib.pyplot as plt\ndf['revenue'].plot()\nplt.show()")
    assert ex.error is None
    width, height = picture(ex.png).size
    assert width > 300
    assert height > 200
    assert len([result for result in ex.results if result.png]) == 1


def test_several_figures_in_order(context: CodeContext) -> None:
    ex = context.run_code(
        "import matplotlib.pyplot as plt\n"
        "for n in (3, 4, 5):\n"
        "    plt.figure(figsize=(n, 2)); plt.plot(range(n)); plt.show(); print('drawn', n)\n"
        "_ = plt.figure(figsize=(6, 2)); _ = plt.plot([1, 0])"
    )
    widths = [picture(result.png).size[0] for result in ex.results]
    assert len(widths) == 4
    assert widths == sorted(set(widths))
    assert ex.stdout == "drawn 3\ndrawn 4\ndrawn 5\n"
    assert picture(ex.png).size[0] == widths[-1]


def test_coffee_sales(sandbox: Sandbox, context: CodeContext, data: Path) -> None:
    local = data / "coffee_sales.csv"
    sandbox.filesystem.upload(local, "coffee_sales.csv")
    code = "monthly = df.groupby([df.order_date.dt.to_period('M').astype(str), 'region'])['sales'].sum()"
    read = "df = pd.read_csv('coffee_sales.csv', parse_dates=['order_date'])"
    context.run_code(f"import pandas as pd\n{read}\n{code}\nmonthly.to_csv('monthly.csv')", check=True)
    df = pd.read_csv(local, parse_dates=["order_date"])
    here = df.groupby([df.order_date.dt.to_period("M").astype(str), "region"])["sales"].sum()
    there = pd.read_csv(
        io.BytesIO(sandbox.filesystem.read("monthly.csv")), index_col=["order_date", "region"]
    )
    assert len(here) > 50
    pd.testing.assert_series_equal(there["sales"], here)
    ex = context.run_code("df.pivot_table(index='product_category', columns='region', values='sales')")
    pivot = df.pivot_table(index="product_category", columns="region", values="sales")
    rows = [row for row in table(ex.html) if row[0] in pivot.index]
    assert [row[0] for row in rows] == list(pivot.index)
    for row, values in zip(rows, pivot.to_numpy().tolist()):
        assert [float(cell) for cell in row[1:]] == pytest.approx(values, abs=1e-6, nan_ok=True)


def test_bikes(sandbox: Sandbox, context: CodeContext, data: Path) -> None:
    local = data / "bikes.csv"
    sandbox.filesystem.upload(local, "bikes.csv")
    assert sandbox.filesystem.read("bikes.csv") == local.read_bytes()
    ex = context.run_code("import pandas as pd\npd.read_csv('bikes.csv', sep=';')")
    assert ex.error is not None
    assert ex.error.name == "UnicodeDecodeError"
    options = "sep=';', encoding='latin-1', parse_dates=['Date'], dayfirst=True, index_col='Date'"
    context.run_code(f"bikes = pd.read_csv('bikes.csv', {options})", check=True)
    ex = context.run_code("bikes.groupby(bikes.index.day_of_week).sum().to_csv('weekdays.csv'); list(bikes)")
    df = pd.read_csv(
        local, sep=";", encoding="latin-1", parse_dates=["Date"], dayfirst=True, index_col="Date"
    )
    assert ex.text is not None
    assert "Brébeuf (données non disponibles)" in ex.text
    there = pd.read_csv(io.BytesIO(sandbox.filesystem.read("weekdays.csv")), index_col="Date")
    here = df.groupby(pd.DatetimeIndex(df.index).day_of_week).sum()
    pd.testing.assert_frame_equal(there, here, check_names=False, check_index_type=False)
    picture(context.run_code("_ = bikes['Berri 1'].plot()").png)
