"""The example that the project's README shows, letter by letter."""

README = '''\
from pandastack import Sandbox
sandbox = Sandbox.create(template="code-interpreter")
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
'''
