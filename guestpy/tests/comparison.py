"""The cells that are compared with ipykernel, and what is left out of the comparison."""

from __future__ import annotations

import re
from typing import Any

Message = dict[str, Any]
Cell = str | tuple[str, tuple[str, ...]]  # with the answers to its input_requests

CELLS: dict[str, list[Cell]] = {
    "value": ["1 + 1", "x = 5", "x;", "None", "_", "__, Out"],
    "print": [
        "print('a'); print('b', end='')",
        "import sys; sys.stderr.write('e\\n'); sys.stdout.write('o\\n')",
    ],
    "order": ["print(1); display(2); print(3); 4"],
    "error": [
        "1 / 0",
        "def f():\n    raise ValueError('no')",
        "f()",
        "try:\n    f()\nexcept ValueError as e:\n    raise KeyError('k') from e",
    ],
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
    "exit": ["import sys; sys.exit(3)", "raise SystemExit", "1"],
    "repr fails": [
        "class B:\n    def __repr__(self): raise ValueError('bad repr')\nB()",
        "display(B())",
        "class H:\n    def _repr_html_(self): raise ValueError('bad html')\n    def __repr__(self): return 'H'\nH()",
    ],
    "inspection magic": ["len?", "import os\nos.path.join??"],
    "display": [
        "display('a', 'b')",
        "display({'text/plain': 'p', 'text/html': '<b>p</b>'}, raw=True, metadata={'text/html': {'isolated': True}})",
    ],
    "display classes": [
        "from IPython.display import *\ndisplay(HTML('<i>h</i>'), Markdown('# m'), Latex('$x$'), Math('x'), JSON({'a': [1]}), SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>'), Javascript('1'))",
        "Audio(data=b'RIFF0000WAVE', rate=8000, embed=True, mimetype='audio/wav')",
        "Video(data=b'1234', embed=True, mimetype='video/mp4')",
        "Image(data=b'\\x89PNG\\r\\n\\x1a\\n', format='png', width=3)",
        "Code('x = 1')",
        "IFrame('a.html', 1, 2)",
        "FileLink('x')",
        "Pretty('pp')",
        "GeoJSON({'type': 'Point'})",
    ],
    "display id": [
        "h = display('one', display_id='d1')\nh.update('two')\nupdate_display('three', display_id='d1')",
        "from IPython.display import DisplayHandle\nDisplayHandle('d9').display('four')",
    ],
    "clear output": [
        "from IPython.display import clear_output\nprint('a'); clear_output(wait=True); print('b'); clear_output(); print('c')"
    ],
    "mimebundle": [
        "class M:\n    def _repr_mimebundle_(self, include=None, exclude=None): return {'text/plain': 'm', 'application/x+json': {'k': 1}}, {'application/x+json': {'meta': 2}}\nM()",
        "class R:\n    def _repr_html_(self): return '<r>', {'w': 1}\n    def _repr_png_(self): return b'\\x89PNG', {'width': 2}\n    def _repr_latex_(self): return '$r$'\n    def _repr_svg_(self): return '<svg/>'\n    def _repr_markdown_(self): return '*r*'\n    def _repr_json_(self): return {'r': 1}\n    def _repr_javascript_(self): return 'r'\n    def _repr_jpeg_(self): return b'\\xff\\xd8'\n    def _repr_pdf_(self): return b'%PDF'\n    def __repr__(self): return 'R'\nR()",
        "class D:\n    def _ipython_display_(self): print('shows itself')\nD()",
    ],
    "pandas": [
        "import pandas as pd, numpy as np\ndf = pd.DataFrame({'a': [1, 2], 'b': ['x', None]})\ndf",
        "df['a']",
        "df.style.format(precision=1).hide()\nNone",
        "pd.DataFrame({'v': [1]}, index=pd.MultiIndex.from_tuples([('a', 1)]))",
    ],
    "matplotlib": [
        "import matplotlib.pyplot as plt\nfig, ax = plt.subplots(figsize=(2, 1)); ax.plot([1, 2])",
        "plt.plot([1]); plt.show(); print('after')",
        "fig",
        "plt.figure(figsize=(1, 1)); plt.plot([2]); plt.close()",
        "plt.get_backend()",
    ],
    "matplotlib magics": [
        "%matplotlib inline",
        "%matplotlib agg",
        "import matplotlib.pyplot as plt\nplt.get_backend()",
        "%matplotlib inline",
        "%config InlineBackend.figure_formats = ['svg']",
        "%config InlineBackend.figure_formats = ['png']",
        "%matplotlib --list",
        "%pylab inline",
        "%matplotlib qt",
        "%matplotlib widget",
        "%matplotlib inline",
    ],
    "gui magic": ["%gui asyncio", "%gui", "%gui nonsense"],
    "system": [
        "!echo out; echo err >&2",
        "!exit 3",
        "_exit_code",
        "x = !echo a; echo b\nx",
        "!!echo c",
        "%system echo d",
        "%sx echo e",
        "!python -c 'print(1)'",
        "!printf 'no newline'",
    ],
    "bash": [
        "%%bash\necho one\necho two >&2",
        "%%bash\nexit 4",
        "%%sh\necho s",
        "%%script python\nprint('p')",
        "%%bash --out text --err bad\necho kept; echo no >&2",
        "text, bad",
        "%%bash --bg\necho background",
        "%%nosuchcell\n1",
    ],
    "capture": [
        "%%capture cap\nprint('in'); display(1)\n!echo child\n2",
        "cap.stdout, cap.stderr, len(cap.outputs)",
        "cap()",
        "from IPython.utils.capture import capture_output\nwith capture_output() as c:\n    print('x'); display('y')\nc.stdout",
    ],
    "timing": [
        "%time 1",
        "%timeit -n2 -r2 1",
        "%%timeit -n1 -r1\nx = 1",
        "%%time\nprint('t')",
    ],
    "magics": [
        "%pwd",
        "%who",
        "%lsmagic\nNone",
        "%env NOSUCH",
        "%nosuchmagic",
        "%%writefile w.py\nz = 3",
        "%run w.py",
        "z",
        "%load w.py",
        "%cat w.py",
        "%ls w.py",
        "%less w.py",
        "%more w.py",
        "%pycat w.py",
        "%man nosuchman",
        "%alias_magic t timeit",
        "%history -l 2",
        "%precision 3",
        "1 / 3",
        "%precision %r",
        "%xmode Plain",
        "1 / 0",
        "%xmode Context",
        "%prun -q 1",
        "%macro m 1",
        "%psource len",
        "%pinfo len",
        "%pdoc len",
        "%page z",
        "%dhist",
        "%cd -q .",
        "%colors nocolor",
        "%sc -l y = echo q",
        "%reset_selective -f ^zz",
        "%edit w.py",
        "%clear",
        "%recall 1",
        "%tb",
        "%logstate",
        "%rerun 1",
    ],
    "pip magic": ["%pip --version"],
    "debug": [
        "def g(v):\n    return 1 / v\ng(0)",
        ("%debug", ("p v", "q")),
        ("import pdb; pdb.run('x = 3')", ("q",)),
        ("breakpoint()", ("p 40 + 2", "c")),
        ("%pdb on", ()),
        ("g(0)", ("up", "q")),
        ("%pdb off", ()),
    ],
    "debug refused": [
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
        ("input('who? ')", ("ada",)),
        ("print('before'); x = input(); print(x)", ("b",)),
        ("import getpass; getpass.getpass('pin: ')", ("1",)),
        ("input()", ("",)),
        ("input()", ("\x04",)),
        (
            "import threading\ndef w():\n    print(input('t? '))\nt = threading.Thread(target=w); t.start(); t.join()",
            ("tt",),
        ),
        ("import asyncio\nawait asyncio.to_thread(input, 'q? ')", ("u",)),
    ],
    "input refused": [
        "input('who? ')",
        "import getpass; getpass.getpass()",
        "import sys; sys.stdin.read()",
        "import sys; sys.stdin.readline()",
    ],
    "warnings": [
        "import warnings\nwarnings.warn('careful')\nprint('on')",
        "\n\ndef deprecated():\n    warnings.warn('old', DeprecationWarning, stacklevel=2)\ndeprecated()",
        "1 is 1",
        "x = '\\d'",
    ],
    "logging": [
        "import logging\nlogging.warning('w')",
        "logging.getLogger('l').error('e')",
    ],
    "threads": [
        "import threading\nt = threading.Thread(target=print, args=('from thread',)); t.start(); t.join()",
        "def bad(): 1/0\nt = threading.Thread(target=bad); t.start(); t.join()",
    ],
    "fork": [
        "import os, sys\nsys.stdout.flush()\npid = os.fork()\nif not pid: os._exit(5)\nos.waitpid(pid, 0)[1] >> 8"
    ],
    "multiprocessing": [
        "import multiprocessing as mp\ndef sq(n): return n * n\nwith mp.get_context('fork').Pool(2) as p: out = p.map(sq, range(5))\nout",
        "p = mp.get_context('fork').Process(target=print, args=('child',)); p.start(); p.join()",
    ],
    "subprocess": [
        "import subprocess, sys\nsubprocess.run(['echo', 'to fd'], stdout=sys.stdout).returncode",
        "subprocess.check_output(['echo', 'got'])",
        "import os; os.system('echo sys')",
        "os.write(1, b'raw\\n')",
        "subprocess.run('echo e >&2', shell=True, stderr=sys.stderr).returncode",
        "sys.stdout.fileno() >= 0, sys.stdout.encoding, sys.stdout.isatty()",
    ],
    "asyncio": [
        "import asyncio\nawait asyncio.sleep(0, 'slept')",
        "async def job(n):\n    await asyncio.sleep(.01); return n\nt = asyncio.create_task(job(5)); t.done()",
        "await t",
        "await asyncio.gather(job(1), job(2))",
        "async with asyncio.timeout(1): print('in')",
        "[i async for i in aiter_()]",
        "asyncio.get_running_loop().is_running()",
        "await asyncio.wait_for(job(3), 1)",
        "asyncio.run(job(8))",
    ],
    "async generator": [
        "async def ag():\n    for i in range(3): yield i\n[i async for i in ag()]",
        "async for i in ag(): print(i)",
    ],
    "signals": [
        "import signal, os\ngot = []\nsignal.signal(signal.SIGUSR1, lambda *a: got.append(1))\nos.kill(os.getpid(), signal.SIGUSR1)\ngot",
        "signal.signal(signal.SIGALRM, lambda *a: got.append(2)); signal.setitimer(signal.ITIMER_REAL, .01); import time; time.sleep(.05); got",
    ],
    "hooks": [
        "ip = get_ipython(); log = []\ndef pre(info): log.append(info.raw_cell)\ndef post(result): log.append(result.success)\nip.events.register('pre_run_cell', pre); ip.events.register('post_run_cell', post)",
        "log",
        "ip.events.unregister('pre_run_cell', pre); ip.events.unregister('post_run_cell', post)",
    ],
    "custom exception": [
        "def h(shell, etype, value, tb, tb_offset=None): print('handled', value)\nget_ipython().set_custom_exc((ValueError,), h)\nraise ValueError('v')",
        "get_ipython().set_custom_exc((), None)",
    ],
    "payload": ["get_ipython().set_next_input('next')", "%load_ext nosuchext"],
    "shell": [
        "type(get_ipython()).__name__, get_ipython().kernel is not None",
        "'IPKernelApp' in get_ipython().config",
        "__name__, __doc__",
        "import sys; sys.modules['__main__'].__name__",
        "In[1] is not None",
        "import os; [os.environ.get(k) for k in ('PAGER', 'GIT_PAGER', 'TERM', 'FORCE_COLOR', 'MPLBACKEND')]",
        "get_ipython().run_cell('1 + 1').result",
        "get_ipython().ev('2 + 2')",
        "get_ipython().ast_node_interactivity",
        "%%python\nprint(3)",
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
    ],
    "unicode": ["print('é 中 😀')", "'\\ud800'", "print('\\ud800')"],
    "large": ["print('x' * 100000)", "list(range(2000))", "'y' * 5000"],
    "sympy-like": [
        "class S:\n    def _repr_latex_(self): return '$\\\\displaystyle x$'\n    def __repr__(self): return 'x'\nS()"
    ],
    "pickle": [
        "def ff(): return 7\nclass CC: pass\nimport pickle\npickle.loads(pickle.dumps(ff))(), type(pickle.loads(pickle.dumps(CC()))) is CC"
    ],
    "inspect": [
        "import inspect\ndef src(): return 1\ninspect.getsource(src)",
        "inspect.getsource(src) == 'def src(): return 1\\n'",
    ],
    "dataclass": [
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int = 1\nP()"
    ],
    "doctest": [
        "def dt():\n    '''\n    >>> dt()\n    1\n    '''\n    return 2\nimport doctest\ndoctest.testmod(verbose=False)"
    ],
    "displayhook": ["import sys; sys.displayhook(7)", "import builtins; builtins._"],
    "recursion": ["def r(n): return r(n + 1)\nr(0)"],
    "nested display": [
        "from contextlib import redirect_stdout\nimport io\nwith redirect_stdout(io.StringIO()) as b: print('hid')\nb.getvalue()"
    ],
    "excepthook": [
        "import sys; sys.excepthook(ValueError, ValueError('x'), None)",
        "get_ipython().showtraceback()",
    ],
    "generator exit": [
        "def gen():\n    try: yield 1\n    finally: print('closed')\ng1 = gen(); next(g1); del g1"
    ],
}

_NOISE = [
    (re.compile(r"/tmp/ipykernel_\d+/\d+\.py"), "CELL"),
    (re.compile(r"<ipython-input-\d+-[0-9a-f]+>"), "CELL"),
    (re.compile(r"\(\d+\.py, line"), "(CELL, line"),
    (re.compile("\x1b\\[[0-9;]*m"), ""),
    (re.compile(r"0x[0-9a-f]{6,}"), "0xADDRESS"),
    (re.compile(r"\b\d+(\.\d+)? ?(ns|μs|µs|us|ms|s)\b"), "TIME"),
    (re.compile(r"\bpid=?\s?\d+"), "PID"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "ID"),
    (re.compile(r"\bThread-\d+"), "THREAD"),
]


def normal(messages: list[Message]) -> list[Message]:
    """What of a cell's messages is compared."""
    out: list[Message] = []
    for m in messages:
        kind = m["msg_type"]
        content = _clean(m["content"])
        if (
            kind == "stream"
            and out
            and out[-1]["type"] == "stream"
            and out[-1]["content"]["name"] == content["name"]
        ):
            out[-1]["content"]["text"] += content["text"]
            continue
        out.append({"type": kind, "content": content})
    for m in out:
        if m["type"] == "stream":
            m["content"]["text"] = _clean(m["content"]["text"])
        if "traceback" in m["content"]:
            m["content"]["traceback"] = [
                t.strip("\n").split("\n")[0] for t in m["content"]["traceback"]
            ]
        if m["type"] == "execute_reply":
            m["content"].pop("engine_info", None)
    return out


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        for pattern, name in _NOISE:
            value = pattern.sub(name, value)
        return value
    if isinstance(value, dict):
        return {k: _clean(v) for k, v in value.items() if k not in ("execution_count",)}
    if isinstance(value, list):
        return [_clean(v) for v in value]
    return value
