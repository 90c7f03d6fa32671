"""jupyter_kernel_test, the suite that every Jupyter kernel is to pass."""

from __future__ import annotations

import jupyter_kernel_test
import pytest

from . import jupyter

pytestmark = pytest.mark.usefixtures("kernelspecs")


class TestKernel(jupyter_kernel_test.KernelTests):
    kernel_name = jupyter.OURS
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('oops', file=sys.stderr)"
    code_generate_error = "raise ValueError('wanted')"
    code_page_something = "zip?"
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"
    code_execute_result = [
        {"code": "6 * 7", "result": "42"},
        {"code": "'6' + '7'", "result": "'67'"},
        {"code": "import math; math.floor(1.5)", "result": "1"},
    ]
    code_display_data = [
        {
            "code": "from IPython.display import display, HTML; display(HTML('<b>x</b>'))",
            "mime": "text/html",
        },
        {
            "code": "from IPython.display import Math; display(Math('x^2'))",
            "mime": "text/latex",
        },
    ]
    completion_samples = [
        {"text": "zi", "matches": {"zip"}},
        {"text": "import itert", "matches": {"itertools"}},
    ]
    complete_code_samples = ["1", "print('x')", "def f(n):\n    return n\n\n"]
    incomplete_code_samples = ["print('''", "def f(n):\n    return n"]
    invalid_code_samples = ["import = 7", "f(x) = 1"]
    code_history_pattern = "6*"
    supported_history_operations = ("tail", "range", "search")


class TestWelcome(jupyter_kernel_test.IopubWelcomeTests):
    kernel_name = jupyter.OURS
    support_iopub_welcome = True
