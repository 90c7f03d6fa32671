"""The README's example, run for real: a table, a chart and a file from a microVM.

    python examples/sales.py [CHART.png]

It needs a running server (`pandastack serve`); `make demo` brings its own.
"""

import atexit
import base64
import sys
import tempfile
from pathlib import Path

SALES = Path(__file__).with_name("sales.csv")
CHART = Path(sys.argv[1] if len(sys.argv) > 1 else "sales-chart.png")

# ---- The README's example; only the marked lines are not in it.
# ruff: noqa: E402, I001, RUF100
# fmt: off
from pandastack import Sandbox
sandbox = Sandbox.create(template="code-interpreter")
atexit.register(sandbox.kill)  # + nothing is left, whatever happens below
sandbox.filesystem.upload(SALES, "/workspace/sales.csv")  # +
ctx = sandbox.create_code_context() # persistent kernel
# State persists across cells, exactly like a notebook.
ctx.run_code("import pandas as pd")
ctx.run_code("df = pd.read_csv('/workspace/sales.csv')")
# A DataFrame comes back as an HTML table.
ex = ctx.run_code("df.describe()")
print(ex.results[0].html) # "<table>...</table>"
# A chart comes back as a base64 PNG.
ex = ctx.run_code("""
import matplotlib.pyplot as plt
df['revenue'].plot()
plt.show()
""")
png_b64 = ex.png # straight back to the model
# ---- End of the README's example.
# fmt: on

SUMMARY = """
summary = df.groupby('category')['revenue'].agg(['count', 'sum', 'mean']).round(2)
summary.to_excel('/workspace/summary.xlsx')
summary
"""

CHART.write_bytes(base64.b64decode(png_b64))
table = ctx.run_code("df.describe()", check=True).html.splitlines()
summary = ctx.run_code(SUMMARY, check=True).text
with tempfile.TemporaryDirectory() as folder:
    report = sandbox.filesystem.download("/workspace/summary.xlsx", folder)
    size = report.stat().st_size

print(f"\nThe table begins ({len(table)} lines of HTML):", *table[:8], sep="\n  ")
print("\nA summary that the session computed:", *summary.splitlines(), sep="\n  ")
print(f"\nDownloaded: {report.name}, {size} bytes")
print(f"Chart:      {CHART.resolve()}, {CHART.stat().st_size} bytes")
steps = ", ".join(f"{step.name} {step.ms:.1f}" for step in sandbox.start.steps)
print(f"Start:      {sandbox.start.kind} in {sandbox.start.total_ms:.0f} ms ({steps})")
print(f"Isolation:  {sandbox.isolation}, accelerator {sandbox.accelerator}")
