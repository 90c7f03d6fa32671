"""The cells that are compared with ipykernel, and what the comparison leaves out.

Names that docs/kernel.md lists are expected to differ; all others must not.
"""

from __future__ import annotations

import re
from typing import Any

Message = dict[str, Any]
Cell = str | tuple[str, ...]  # with the answers to what it asks for

CELLS: dict[str, list[Cell]] = {
    "value": ["1 + 1", "x = 5", "x;", "None", "_", "__, Out", "x = 1; x"],
    "print": ["print('a'); print('b', end='')", "print(1); display(2); print(3); 4"],
    "stdout and stderr": [
        "import sys\nfor _ in range(20): print('e', file=sys.stderr); print('o')"
    ],
    "error": ["1 / 0", "def f():\n    raise ValueError('no')", "f()"],
    "chained errors": [
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e"
    ],
    "error again": ["1 / 0", "%tb"],
    "traceback module": [
        "import traceback\ntry:\n    1 / 0\nexcept Exception:\n    traceback.print_exc()"
    ],
    "syntax error": ["a = = 1", "if True:\nx = 1", "return 5", "f(", "print 'x'"],
    "exception group": ["raise ExceptionGroup('g', [ValueError('in it')])"],
    "base exceptions": [
        "raise KeyboardInterrupt",
        "raise GeneratorExit",
        "class E(Exception):\n  def __str__(self): return 'mine'\nraise E",
    ],
    "exit": ["raise SystemExit(3)", "import sys; sys.exit()"],
    "failing repr": [
        "class B:\n    def __repr__(self): raise ValueError('bad')\nB()",
        "class H(B):\n    def _repr_html_(self): 1 / 0\n    __repr__ = object.__repr__\nH()",
    ],
    "failing display": ["display(B())", "print('goes on')"],
    "custom exception handler": [
        "def handle(shell, etype, value, tb, tb_offset=None): print('handled', value)\n"
        "get_ipython().set_custom_exc((ValueError,), handle)\nraise ValueError('v')",
        "get_ipython().set_custom_exc((), None)",
    ],
    "excepthook": ["import sys; sys.excepthook(ValueError, ValueError('x'), None)"],
    "statements": [
        "# only",
        "",
        "pass",
        "...",
        "'doc'",
        "(x := 4)",
        "1; 2",
        "1; # c",
        "del x",
        "x",
        "Out[1]",
        "_i, _ii",
        "@",
    ],
    "help": ["help(len)", "help('nosuchtopic')", "license"],
    "main module": [
        "import __main__; __main__.__dict__ is globals()",
        "__builtins__, __builtin__.__name__, __loader__, __spec__",
        "_ih is In, _oh is Out, len(_dh)",
        "__file__",
    ],
    "own magics": [
        "from IPython.core.magic import register_line_magic, register_cell_magic\n"
        "@register_line_magic\ndef lm(line): return line\n"
        "@register_cell_magic\ndef cm(line, cell): return cell",
        "%lm a b",
        "%%cm\nbody",
        "y = %lm q\ny",
        "def foo(lines): return [line.replace('FOO', '42') for line in lines]\n"
        "get_ipython().input_transformers_cleanup.append(foo)",
        "FOO",
        "get_ipython().input_transformers_cleanup.clear()",
    ],
    "extensions": ["%load_ext autoreload", "%autoreload 2", "1", "%autoreload 0"],
    "language cells": [
        "%%javascript\nalert(1)",
        "%%html\n<b>",
        "%%svg\n<svg/>",
        "%%latex\n$x$",
        "%%markdown\n# a",
    ],
    "%store": [
        "%store -z",
        "zz = 3",
        "%store zz",
        "del zz",
        "%store -r zz",
        "zz",
        "%store -z",
    ],
    "inspection": ["len?", "import os\nos.path.join??", "%pinfo len", "%pdoc len"],
    "display": [
        "display('a', 'b')",
        "display(), display(None), display(1, metadata={'a': 1})",
        "class T: pass\n"
        "formatters = get_ipython().display_formatter.formatters\n"
        "formatters['text/html'].for_type(T, lambda t: '<t>')\nT()",
        "class N:\n    def _repr_html_(self): return None\n"
        "    def __repr__(self): return 'N'\nN()",
        "class W(N):\n    def _repr_html_(self): return 5\nW()",
        "display({'text/plain': 'p', 'text/html': '<b>p</b>'}, raw=True,"
        " metadata={'text/html': {'isolated': True}})",
    ],
    "display classes": [
        "from IPython.display import *\ndisplay(HTML('<i>h</i>'), Markdown('# m'),"
        " Latex('$x$'), Math('x'), JSON({'a': [1]}), Javascript('1'),"
        " SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>'))",
        "Audio(data=b'RIFF0000WAVE', rate=8000, embed=True)",
        "Video(data=b'1234', embed=True, mimetype='video/mp4')",
        "Image(data=b'\\x89PNG\\r\\n\\x1a\\n', format='png', width=3)",
        "Image(data=b'\\xff\\xd8', format='jpeg', metadata={'alt': 'a'})",
        "Code('x = 1')",
        "IFrame('a.html', 1, 2)",
        "FileLink('x')",
        "Pretty('pp')",
        "GeoJSON({'type': 'Point'})",
    ],
    "display id": [
        "h = display('one', display_id='d1')\nh.update('two')\n"
        "update_display('three', display_id='d1')",
        "DisplayHandle('d9').display('four')",
    ],
    "clear output": [
        "print('a'); clear_output(wait=True); print('b'); clear_output(); print('c')"
    ],
    "mime bundle": [
        "class M:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n"
        "        data = {'text/plain': 'm', 'application/x+json': {'k': 1}}\n"
        "        return data, {'application/x+json': {'meta': 2}}\nM()",
        "class R:\n"
        "    def _repr_html_(self): return '<r>', {'w': 1}\n"
        "    def _repr_png_(self): return b'\\x89PNG', {'width': 2}\n"
        "    def _repr_latex_(self): return '$r$'\n"
        "    def _repr_svg_(self): return '<svg/>'\n"
        "    def _repr_markdown_(self): return '*r*'\n"
        "    def _repr_json_(self): return {'r': 1}, {'expanded': True}\n"
        "    def _repr_javascript_(self): return 'r'\n"
        "    def _repr_jpeg_(self): return b'\\xff\\xd8'\n"
        "    def _repr_pdf_(self): return b'%PDF'\n"
        "    def __repr__(self): return 'R'\nR()",
        "class D:\n    def _ipython_display_(self): print('shows itself')\nD()",
        "display(R(), include=['text/html'])",
    ],
    "pandas": [
        "import pandas as pd, numpy as np\n"
        "df = pd.DataFrame({'a': [1.5, np.nan], 'b': ['x', None]})\ndf",
        "df['a']",
        "pd.DataFrame({'v': [1, 2]},"
        " index=pd.MultiIndex.from_product([['a'], [1, 2]], names=['o', 'i']))",
        "df",
    ],
    "seaborn": [
        "import seaborn as sns\nimport matplotlib.pyplot as plt\n"
        "plt.figure(figsize=(1, 1)); sns.lineplot(x=[1, 2], y=[1, 2])"
    ],
    "plotly": ["import plotly.io as pio\npio.renderers.default"],
    "styler": ["df.style.format(precision=1).set_uuid('u')"],
    "pillow": [
        "from PIL import Image as I\nI.new('RGB', (2, 2))",
    ],
    "matplotlib": [
        "import matplotlib.pyplot as plt\n"
        "fig, ax = plt.subplots(figsize=(2, 1)); ax.plot([1, 2])",
        "plt.plot([1]); plt.show(); print('after')",
        "fig",
        "plt.figure(figsize=(1, 1)); plt.plot([2]); plt.close()",
        "plt.get_backend()",
    ],
    "%matplotlib": [
        "%matplotlib inline",
        "%matplotlib agg",
        "import matplotlib.pyplot as plt\nplt.get_backend()",
        "plt.plot([1]); plt.show()",
        "%matplotlib inline",
        "%config InlineBackend.figure_formats = ['svg']",
        "%config InlineBackend.figure_formats = ['png']",
        "%matplotlib --list",
        "%matplotlib qt",
        "%matplotlib widget",
        "%matplotlib notebook",
        "plt.get_backend()",
        "%matplotlib inline",
        "plt.plot([1]); plt.show()",
    ],
    "%gui": ["%gui asyncio", "%gui"],
    "%gui of no such toolkit": ["%gui nonsense"],
    "shell command": ["!echo out; echo err >&2", "!python -c 'print(1)'"],
    "shell command's value": [
        "!exit 3",
        "_exit_code",
        "x = !echo a; echo b\nx",
        "!!echo c",
        "%system echo d",
        "%sx echo e",
        "%sc -l y = echo q",
        "y",
        "!printf 'no newline'",
    ],
    "%%bash": [
        "%%bash\necho one\necho two >&2",
        "%%sh\necho s",
        "%%script python\nprint('p')",
        "%%bash --out text --err bad\necho kept; echo no >&2",
        "text, bad",
        "%%bash --bg\necho background",
        "%%python\nprint(3)",
        "%%bash --no-raise-error\nexit 4",
    ],
    "%%bash fails": ["%%bash\nexit 4"],
    "%%capture": [
        "%%capture cap\nprint('in'); display(1)\n2",
        "cap.stdout, cap.stderr, len(cap.outputs)",
        "cap()",
        "from IPython.utils.capture import capture_output\n"
        "with capture_output() as c:\n    print('x'); display('y')\nc.stdout",
    ],
    "timing": [
        "%time 1",
        "%timeit -n2 -r1 1",
        "%%timeit -n1 -r1\nx = 1",
        "%%time\nprint('t')",
        "%prun -q 1",
    ],
    "unknown magic": ["%nosuchmagic", "%%nosuchcell\n1", "%env NOSUCH"],
    "files": [
        "%pwd",
        "%%writefile w.py\nz = 3",
        "%run w.py",
        "z",
        "%load w.py",
        "%less w.py",
        "%more w.py",
        "%pycat w.py",
        "%man nosuchman",
        "%edit w.py",
        "%cd -q .",
        "%dhist",
    ],
    "session": [
        "%who",
        "%lsmagic\nNone",
        "%alias_magic t timeit",
        "%history -l 2",
        "%precision 3",
        "1 / 3",
        "%precision %r",
        "%xmode Plain",
        "1 / 0",
        "%xmode Context",
        "%macro m 1",
        "%psource len",
        "%page z",
        "%colors nocolor",
        "%reset_selective -f ^zz",
        "%recall 1",
        "%logstate",
    ],
    "%pip": ["%pip --version"],
    "debugger": [
        "def g(v):\n    return 1 / v\ng(0)",
        ("%debug", "p v", "q"),
        ("import pdb; pdb.run('x = 3')", "q"),
        ("import pdb; pdb.set_trace()\nx = 4", "p 40 + 2", "c"),
        ("%pdb on",),
        ("g(0)", "up", "q"),
        ("%pdb off",),
    ],
    "breakpoint": [("breakpoint()\nx = 4", "p 40 + 2", "c")],
    "debugger, nobody to answer": [
        "g(0)",
        "%debug",
        "breakpoint()",
        "import pdb; pdb.set_trace()",
        "%pdb on",
        "g(0)",
        "%pdb off",
        "%%debug\nx = 1",
    ],
    "input": [
        ("input('who? ')", "ada"),
        ("print('before'); x = input(); print(x)", "b"),
        ("import getpass; getpass.getpass('pin: ')", "1"),
        ("input()", ""),
        (
            "import threading\ndef w():\n    print(input('t? '))\n"
            "t = threading.Thread(target=w); t.start(); t.join()",
            "in a thread",
        ),
        ("import asyncio\nawait asyncio.to_thread(input, 'q? ')", "u"),
    ],
    "end of input": [("input()", "\x04")],
    "input, nobody to answer": ["input('who? ')", "import getpass; getpass.getpass()"],
    "standard input": ["import sys; sys.stdin.read()", "sys.stdin.readline()"],
    "warnings": [
        "import warnings\nwarnings.warn('careful')",
        "\n\ndef deprecated():\n    warnings.warn('old', DeprecationWarning, stacklevel=2)\n"
        "deprecated()",
        "x = warnings.warn_explicit('there', UserWarning, 'a.py', 7)",
    ],
    "syntax warning": ["1 is 1"],
    "logging": ["import logging\nlogging.warning('w')", "logging.error('e')"],
    "threads": [
        "import threading\n"
        "t = threading.Thread(target=print, args=('from it',)); t.start(); t.join()",
        "def bad(): 1/0\nt = threading.Thread(target=bad); t.start(); t.join()",
    ],
    "fork": [
        "import os, sys, warnings\nsys.stdout.flush()\n"
        "with warnings.catch_warnings():\n"
        "    warnings.simplefilter('ignore')  # Python 3.12: that threads run\n"
        "    pid = os.fork()\n"
        "if not pid: os._exit(5)\nos.waitpid(pid, 0)[1] >> 8"
    ],
    "multiprocessing": [
        "import multiprocessing as mp\ndef sq(n): return n * n\n"
        "with mp.get_context('fork').Pool(2) as p: out = p.map(sq, range(5))\nout",
        "p = mp.get_context('fork').Process(target=print, args=('child',))\n"
        "p.start(); p.join(); p.exitcode",
    ],
    "process pool": [
        "from concurrent.futures import ProcessPoolExecutor\n"
        "with ProcessPoolExecutor(2) as e: r = list(e.map(sq, range(3)))\nr"
    ],
    "subprocess": [
        "import subprocess, sys\nsubprocess.check_output(['echo', 'got'])",
        "sys.stdout.encoding, sys.stdout.isatty()",
    ],
    "subprocess to sys.stdout": [
        "subprocess.run(['echo', 'to fd'], stdout=sys.stdout).returncode",
        "import os; os.system('echo sys')",
        "print('x', file=sys.__stderr__)",
        "os.write(1, b'raw\\n')",
    ],
    "asyncio": [
        "import asyncio\nawait asyncio.sleep(0, 'slept')",
        "async def job(n):\n    await asyncio.sleep(.01); return n\n"
        "t = asyncio.create_task(job(5)); t.done()",
        "await t",
        "await asyncio.gather(job(1), job(2))",
        "async with asyncio.timeout(1): print('in')",
        "await asyncio.wait_for(job(3), 1)",
        "async def ag():\n    for i in range(3): yield i\n[i async for i in ag()]",
        "async for i in ag(): print(i)",
        "asyncio.get_running_loop() is asyncio.get_event_loop()",
    ],
    "%autoawait": [
        "%autoawait",
        "%autoawait off",
        "%autoawait True",
        "%autoawait asyncio",
        "await asyncio.sleep(0, 3)",
    ],
    "errors in tasks": [
        "async def bad(): 1 / 0\nawait bad()",
        "raise asyncio.CancelledError('x')",
        "t = asyncio.create_task(asyncio.sleep(9)); t.cancel()\nawait t",
    ],
    "event loop": [
        "loop = asyncio.get_event_loop()\nloop.call_soon(print, 'soon')\n"
        "await asyncio.sleep(.01)",
        "await loop.run_in_executor(None, lambda: 5)",
    ],
    "sys.path": [
        "import os, sys\nlast = sys.path.index('') - 1\n"
        "[os.path.basename(entry) for entry in sys.path[last:]]",
    ],
    "context variables": [
        "import contextvars\nv = contextvars.ContextVar('v', default=0)\nv.set(5); None",
        "v.get()",
        "async def got(): return v.get()\nawait got()",
        "v.set(7); await asyncio.sleep(0)",
        "v.get()",
    ],
    "asyncio.run": [
        "c = job(8)\ntry: r = asyncio.run(c)\nexcept RuntimeError as e: r = e\n"
        "c.close(); r"
    ],
    "loop.is_running": ["asyncio.get_running_loop().is_running()"],
    "signals": [
        "import signal, os\ngot = []\n"
        "signal.signal(signal.SIGUSR1, lambda *a: got.append(1))\n"
        "os.kill(os.getpid(), signal.SIGUSR1)\ngot",
        "signal.signal(signal.SIGALRM, lambda *a: got.append(2))\n"
        "signal.setitimer(signal.ITIMER_REAL, .01)\nimport time; time.sleep(.05); got",
    ],
    "hooks": [
        "ip = get_ipython(); log = []\n"
        "def pre(info): log.append(info.raw_cell)\n"
        "def post(result): log.append(result.success)\n"
        "ip.events.register('pre_run_cell', pre)\n"
        "ip.events.register('post_run_cell', post)",
        "log",
        "ip.events.unregister('pre_run_cell', pre)\n"
        "ip.events.unregister('post_run_cell', post)",
        "seen = []\ndef hook(message):\n    seen.append(message['msg_type'])\n"
        "ip.display_pub.register_hook(hook)\ndisplay('hidden')\n"
        "ip.display_pub.unregister_hook(hook)",
        "seen",
    ],
    "payload": ["get_ipython().set_next_input('next')", "%load_ext nosuchext"],
    "shell": [
        "type(get_ipython()).__name__, get_ipython().kernel is not None",
        "'IPKernelApp' in get_ipython().config",
        "__name__, __doc__",
        "import sys; sys.modules['__main__'].__name__",
        "import os; [os.environ.get(k) for k in ('PAGER', 'GIT_PAGER')]",
        "get_ipython().run_cell('1 + 1').result",
        "get_ipython().ev('2 + 2')",
        "sys.displayhook(7)",
    ],
    "environment": [
        "[os.environ.get(k) for k in ('TERM', 'FORCE_COLOR', 'MPLBACKEND')]"
    ],
    "interactivity": [
        "get_ipython().ast_node_interactivity = 'all'\n1\n2",
        "1\n2",
        "get_ipython().ast_node_interactivity = 'last_expr'",
        "1\n2",
    ],
    "widgets": [
        "import ipywidgets as w\ns = w.IntSlider(3)\ns",
        "s.value = 4",
        "o = w.Output()\nwith o: print('inside')\no",
        "w.interact(lambda n: n, n=2)\nNone",
        "w.Image(value=b'123')",
        "s.close()",
    ],
    "unicode": ["print('é 中 😀')", "'é 中 😀'", "'\\ud800'"],
    "large": ["print('x' * 100000)", "list(range(2000))", "'y' * 5000"],
    "pickle": [
        "def ff(): return 7\nclass CC: pass\nimport pickle\n"
        "pickle.loads(pickle.dumps(ff))(), type(pickle.loads(pickle.dumps(CC()))) is CC"
    ],
    "source": [
        "import inspect\ndef src(): return 1\ninspect.getsource(src)",
        "import linecache; linecache.checkcache(); inspect.getsource(src)",
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int = 1\nP()",
        "def dt():\n    '''\n    >>> dt()\n    1\n    '''\n    return 2\n"
        "import doctest\ndoctest.testmod(verbose=False)",
    ],
    "redirect": [
        "from contextlib import redirect_stdout\nimport io\n"
        "with redirect_stdout(io.StringIO()) as b: print('hid')\nb.getvalue()"
    ],
    "generators": [
        "def gen():\n    try: yield 1\n    finally: print('closed')\n"
        "g1 = gen(); next(g1); del g1"
    ],
}

# Questions about the session that the cells above leave behind.
REQUESTS: dict[str, list[tuple[str, Message]]] = {
    "complete": [
        ("complete_request", {"code": "os.path.joi", "cursor_pos": 11}),
        ("complete_request", {"code": "ff", "cursor_pos": 2}),
        ("complete_request", {"code": "%timei", "cursor_pos": 6}),
        ("complete_request", {"code": "s.valu", "cursor_pos": 6}),
        ("complete_request", {"code": "nothing_like_it", "cursor_pos": 15}),
    ],
    "inspect": [
        ("inspect_request", {"code": "gen", "cursor_pos": 1, "detail_level": 0}),
        ("inspect_request", {"code": "gen(", "cursor_pos": 4, "detail_level": 1}),
        ("inspect_request", {"code": "nosuch", "cursor_pos": 3, "detail_level": 0}),
    ],
    "is complete": [
        ("is_complete_request", {"code": code})
        for code in (
            "1",
            "for i in x:",
            "a = = 1",
            "'''",
            "if x:\n    y\n",
            "%%bash\nls",
        )
    ],
    "history": [
        (
            "history_request",
            {"hist_access_type": "range", "output": True, "raw": True, "session": 0}
            | {"start": 1, "stop": 4},
        ),
        (
            "history_request",
            {"hist_access_type": "tail", "output": False, "raw": True, "n": 3},
        ),
    ],
    "comm info": [("comm_info_request", {"target_name": "nosuch"})],
}

_NOISE = [
    (re.compile(r"/tmp/ipykernel_\d+/\d+\.py|<ipython-input-\d+-[0-9a-f]+>"), "CELL"),
    (re.compile(r"\(\d+\.py, line"), "(CELL, line"),
    (re.compile("\x1b\\[[0-9;]*m"), ""),
    (re.compile(r"0x[0-9a-f]{6,}"), "ADDRESS"),
    (re.compile(r"\b\d+(\.\d+)?(e[+-]?\d+)? ?(ns|μs|µs|us|ms|s)\b"), "TIME"),
    (re.compile(r"[0-9a-f]{8}-?[0-9a-f]{24}(_\d+_\d+)?"), "ID"),
    (re.compile(r"\bThread-\d+"), "THREAD"),
    (re.compile(r"\(\d+ times\)"), "(TIMES)"),
]
_VARIES = ("execution_count", "engine_info")


def normal(messages: list[Message], folder: str) -> list[Message]:
    """What of a cell's messages is compared: all but names, times and addresses.

    Of tracebacks it is every frame's first line, where ours show more around it.
    """
    seen: list[Message] = []
    for message in messages:
        kind, content = message["msg_type"], clean(message["content"], folder)
        last = seen[-1] if seen else {}
        if kind == last.get("type") == "stream" and _joins(last["content"], content):
            last["content"]["text"] += content["text"]
        else:
            seen.append({"type": kind, "content": content})
    return seen


def _joins(one: Message, other: Message) -> bool:
    return one["name"] == other["name"]


def clean(value: Any, folder: str) -> Any:
    """value without what differs from run to run."""
    if isinstance(value, str):
        value = value.replace(folder, "FOLDER")
        for pattern, name in _NOISE:
            value = pattern.sub(name, value)
        return value
    if isinstance(value, dict):
        kept = {k: clean(v, folder) for k, v in value.items() if k not in _VARIES}
        if "traceback" in kept:
            heads = [t.strip("\n").split("\n")[0] for t in kept["traceback"]]
            kept["traceback"] = [h for h in heads if "site-packages/ipykernel" not in h]
        return kept
    if isinstance(value, list):
        return [clean(item, folder) for item in value]
    return value
