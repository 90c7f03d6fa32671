"""Values, state, errors, magics: what a cell gives back."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from .client import KernelClient, Zygote


def test_value_and_message_order(kernel: KernelClient) -> None:
    cell = kernel.run("1+1")
    assert cell.text == "2"
    assert cell.types == [
        "status",
        "execute_input",
        "execute_result",
        "execute_reply",
        "status",
    ]
    assert {m["parent_header"]["msg_id"] for m in cell.messages} == {"c1"}


def test_lean_gives_what_the_cell_shows_and_its_reply(kernel: KernelClient) -> None:
    lean = kernel.start("print('a')\n1 + 1", lean=True)
    after = kernel.until_idle(kernel.start("2"))
    types = [
        m["header"]["msg_type"] for m in after if m["parent_header"]["msg_id"] == lean
    ]
    assert types == ["stream", "execute_result", "execute_reply"]


def test_ready_frame(kernel: KernelClient) -> None:
    assert kernel.ready["header"]["msg_type"] == "ready"
    assert kernel.ready["content"]["pid"] == kernel.pid
    assert kernel.ask("kernel_info_request", {})["language_info"]["name"] == "python"


def test_state_survives_across_cells(kernel: KernelClient) -> None:
    kernel.run("x = 20\ndef f(n): return n + 1")
    assert kernel.run("f(x) * 2").text == "42"
    assert kernel.run("(_, Out[2], In[1][:6], _2)").text == "(42, 42, 'x = 20', 42)"


def test_fresh_session_shows_nothing_of_the_warm_up(kernel: KernelClient) -> None:
    cell = kernel.run("sorted(n for n in globals() if not n.startswith('_'))")
    assert cell.text == "['In', 'Out', 'exit', 'get_ipython', 'open', 'quit']"
    assert cell.reply["execution_count"] == 1
    assert kernel.run("In[0], len(In), len(Out)").text == "('', 3, 1)"
    code = "import sys; 'pandas' in sys.modules, sys.argv, sys.path.count('')"
    assert kernel.run(code).text == "(True, [''], 1)"
    assert kernel.run("import os; os.environ.get('PYTHONPATH')").text is None
    assert kernel.run("plt.get_fignums()").error["ename"] == "NameError"
    code = "import matplotlib.pyplot as plt; plt.get_fignums()"
    assert kernel.run(code).text == "[]"


def test_cwd_and_env(zygote: Zygote, tmp_path: Path) -> None:
    one = zygote.kernel(str(tmp_path), {"COLOUR": "blue"})
    code = "import os; os.getcwd(), os.environ['COLOUR'], os.getsid(0) == os.getpid()"
    assert one.run(code).text == f"('{tmp_path}', 'blue', True)"
    one.close()


def test_silent_and_store_history(kernel: KernelClient) -> None:
    silent = kernel.run("y = 5\ny", silent=True)
    assert silent.types == ["status", "execute_reply", "status"]
    assert kernel.run("y", store_history=False).text == "5"
    assert kernel.run("'counted'").reply["execution_count"] == 1


def test_user_expressions_and_payload(kernel: KernelClient) -> None:
    cell = kernel.run("n = 3", user_expressions={"a": "n * 2", "b": "1/0"})
    expressions = cell.reply["user_expressions"]
    assert expressions["a"]["data"]["text/plain"] == "6"
    assert expressions["b"]["ename"] == "ZeroDivisionError"
    cell = kernel.run("get_ipython().set_next_input('next')")
    assert cell.reply["payload"][0]["text"] == "next"
    cell = kernel.run("n?")
    assert "int" in cell.of("display_data")[0]["data"]["text/plain"]


def test_error_traceback(kernel: KernelClient) -> None:
    kernel.run("def inner():\n    return 1 / 0")
    cell = kernel.run("inner()")
    assert cell.status == "error"
    error = cell.error
    assert (error["ename"], error["evalue"]) == (
        "ZeroDivisionError",
        "division by zero",
    )
    joined = "\n".join(error["traceback"])
    assert "\x1b[" in joined
    assert "In[1]" in joined
    assert "In[2]" in joined
    assert cell.reply["ename"] == "ZeroDivisionError"
    assert len(cell.of("error")) == 1


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("a = = 1", "SyntaxError"),
        ("if True:\nx = 1", "IndentationError"),
        ("return 5", "SyntaxError"),
        ("%nosuchmagic", "UsageError"),
        ("raise ExceptionGroup('g', [ValueError('in it')])", "ExceptionGroup"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("class E(Exception):\n  def __str__(self): 1/0\nraise E", "E"),
        ("raise BaseException('odd')", "BaseException"),
    ],
)
def test_every_error_is_one_message(kernel: KernelClient, code: str, name: str) -> None:
    cell = kernel.run(code)
    assert [e["ename"] for e in cell.of("error")] == [name]
    assert cell.status == "error"
    assert cell.error["traceback"]
    assert kernel.run("'alive'").text == "'alive'"


def test_a_value_that_cannot_be_shown_fails_its_cell(kernel: KernelClient) -> None:
    cell = kernel.run("class B:\n    def __repr__(self): 1 / 0\nB()")
    assert (cell.status, cell.reply["ename"]) == ("error", "ZeroDivisionError")
    assert len(cell.of("error")) == 1
    cell = kernel.run("display(B()); 'goes on'")
    assert (cell.status, cell.text) == ("ok", "'goes on'")


def test_tracebacks_end_in_the_users_code(kernel: KernelClient) -> None:
    kernel.run("def ask():\n    return input()")
    for code in ("ask()", "%%bash\nexit 3", "breakpoint()", "%debug"):
        traceback = "".join(kernel.run(code).error["traceback"])
        assert "pandastack_kernel" not in traceback


def test_history_magics(kernel: KernelClient) -> None:
    kernel.run("a = 1")
    kernel.run("b = 2")
    assert kernel.run("%history -l 2").stdout == "a = 1\nb = 2\n"
    request = {"hist_access_type": "search", "pattern": "* = *", "output": True}
    found = kernel.ask("history_request", {**request, "n": 1})["history"]
    assert found == [[0, 2, ["b = 2", None]]]


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("import sys; sys.exit(3)", "3"),
        ("exit(4)", "4"),
        ("quit", "None"),
        ("exit", "None"),
    ],
)
def test_exit_ends_the_cell_only(kernel: KernelClient, code: str, value: str) -> None:
    kernel.run("kept = 1")
    cell = kernel.run(code)
    assert (cell.error["ename"], cell.error["evalue"]) == ("SystemExit", value)
    assert cell.stderr == ""
    assert kernel.run("kept").text == "1"


def test_top_level_await_and_tasks_across_cells(kernel: KernelClient) -> None:
    kernel.run(
        "import asyncio\nasync def job(n):\n  await asyncio.sleep(.01); return n"
    )
    assert kernel.run("await job(3)").text == "3"
    assert kernel.run("t = asyncio.create_task(job(5)); t.done()").text == "False"
    assert kernel.run("await t").text == "5"
    assert kernel.run("asyncio.run(job(8))").text == "8"
    assert kernel.run("asyncio.get_event_loop().run_until_complete(job(9))").text == "9"
    assert kernel.run("[i async for i in aiter_([1])]").error["ename"] == "NameError"
    error = kernel.run("await job(1)\nasyncio.run(job(2))").error
    assert "running event loop" in error["evalue"]


def test_tasks_go_on_between_cells(kernel: KernelClient) -> None:
    kernel.run(
        "import asyncio\nasync def tick():\n"
        "    await asyncio.sleep(.01)\n    print('ticked')\n"
        "t = asyncio.create_task(tick())"
    )
    assert kernel.wait_for("stream")["content"]["text"] == "ticked\n"
    assert kernel.run("t.done()").text == "True"


def test_stop_on_error_aborts_what_waits(kernel: KernelClient) -> None:
    kernel.start("import time; time.sleep(.3); 1/0", stop_on_error=True)
    waiting = kernel.start("'never'")
    messages = kernel.until_idle(waiting)
    reply = next(
        m["content"]
        for m in messages
        if m["header"]["msg_type"] == "execute_reply"
        and m["parent_header"]["msg_id"] == waiting
    )
    assert reply["status"] == "aborted"
    assert kernel.run("'after'").text == "'after'"


def test_magics(kernel: KernelClient, tmp_path: Path) -> None:
    assert kernel.run("!echo shell-{1+1}; exit 3").stdout == "shell-2\n"
    assert kernel.run("_exit_code").text == "3"
    assert kernel.run("%%bash\necho one\necho two >&2").stdout == "one\n"
    assert "loop" in kernel.run("%timeit -n2 -r2 1").stdout
    kernel.run("%cd /")
    assert kernel.run("import os; os.getcwd()").text == "'/'"
    kernel.run("%env WORD=yes")
    assert kernel.run("!echo $WORD").stdout == "yes\n"
    assert kernel.run("x = !echo listed\nx[0]").text == "'listed'"
    cell = kernel.run("%%capture got\nprint('in'); display(1)\n!echo child")
    assert (cell.stdout, cell.bundles) == ("", [])
    assert kernel.run("got.stdout").text == "'in\\nchild\\n'"
    assert "x = !echo" in kernel.run("%history").stdout
    cell = kernel.run("%debug")
    assert cell.error["ename"] == "StdinNotImplementedError"


def test_script_magic_options(kernel: KernelClient) -> None:
    kernel.run("%%bash --out text\necho kept")
    assert kernel.run("text").text == "'kept\\n'"
    cell = kernel.run("%%bash\nfalse")
    assert cell.error["ename"] == "CalledProcessError"
    cell = kernel.run(
        "print('a')\nget_ipython().run_cell_magic('sh', '', 'echo b')\nprint('c')"
    )
    assert cell.stdout == "a\nb\nc\n"


def test_pip_installs_a_wheel_into_the_running_session(
    kernel: KernelClient, tmp_path: Path
) -> None:
    name = "h9tiny-1.0"
    with zipfile.ZipFile(tmp_path / f"{name}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("h9tiny.py", "VERSION = '1.0'\n")
        info = f"{name}.dist-info/"
        wheel.writestr(
            info + "METADATA", "Metadata-Version: 2.1\nName: h9tiny\nVersion: 1.0\n"
        )
        wheel.writestr(
            info + "WHEEL",
            "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(info + "RECORD", "")
    assert kernel.run("import h9tiny").error["ename"] == "ModuleNotFoundError"
    try:
        cell = kernel.run(
            f"%pip install -q --no-index --no-deps {name}-py3-none-any.whl"
        )
        assert cell.status == "ok", cell.stderr
        assert kernel.run("import h9tiny; h9tiny.VERSION").text == "'1.0'"
    finally:
        kernel.run("%pip uninstall -q -y h9tiny")


def test_introspection(kernel: KernelClient) -> None:
    kernel.run("import math\nnumber_of_things = 1")
    reply = kernel.ask("complete_request", {"code": "number_of_t", "cursor_pos": 11})
    assert reply["matches"] == ["number_of_things"]
    assert (reply["cursor_start"], reply["cursor_end"]) == (0, 11)
    reply = kernel.ask("inspect_request", {"code": "math.sqrt", "cursor_pos": 7})
    assert "square root" in reply["data"]["text/plain"]
    reply = kernel.ask("is_complete_request", {"code": "for i in x:"})
    assert reply == {"status": "incomplete", "indent": "    "}
    reply = kernel.ask("history_request", {"hist_access_type": "tail", "n": 5})
    assert reply["history"][-1][2] == "import math\nnumber_of_things = 1"
    search = {"hist_access_type": "search", "pattern": "import*", "n": 3}
    assert len(kernel.ask("history_request", search)["history"]) == 1
    assert kernel.ask("nonsense_request", {})["status"] == "error"


def test_questions_that_break_the_answering_have_no_answer(
    kernel: KernelClient,
) -> None:
    kernel.run(
        "class Evil:\n"
        "    def __getattr__(self, name): raise SystemExit(3)\n"
        "    def __dir__(self): raise KeyboardInterrupt\n"
        "    def _repr_mimebundle_(self, **_): raise MemoryError\n"
        "evil = Evil()"
    )
    for code in (
        "evil.",
        "evil.a",
        "evil",
        "evil[",
        "\r\u00a4\u00a6",
        "\r\u00e9",
        "\0",
        "\ud800",
        "'" * 3 + "\\",
        "(" * 500,
        "\f\t\v x",
    ):
        at = {"code": code, "cursor_pos": len(code)}
        assert kernel.ask("complete_request", at)["status"] == "ok", code
        assert kernel.ask("inspect_request", at)["status"] == "ok", code
        reply = kernel.ask("is_complete_request", at)
        assert reply["status"] in {"complete", "incomplete", "invalid", "unknown"}, code
    assert kernel.run("1 + 1").text == "2"


def test_functions_of_main_can_be_pickled(kernel: KernelClient) -> None:
    kernel.run("def f(): return 7\nclass C: pass\nimport pickle, __main__")
    assert kernel.run("pickle.loads(pickle.dumps(f))()").text == "7"
    assert kernel.run("type(pickle.loads(pickle.dumps(C()))) is C").text == "True"
    assert kernel.run("__main__.f is f").text == "True"


def test_broken_stdout_does_not_end_the_kernel(kernel: KernelClient) -> None:
    for broken in ("None", "object()", "open('/dev/full', 'w')"):
        kernel.run(f"import sys; kept = sys.stdout; sys.stdout = {broken}")
        kernel.run("print('x' * 100000)")
        assert kernel.run("5 + 5").text == "10"
        kernel.run("sys.stdout = kept")
        assert kernel.run("print('back')").stdout == "back\n"


def test_hooks_run(kernel: KernelClient) -> None:
    kernel.run(
        "ip = get_ipython(); log = []\n"
        "ip.events.register('pre_run_cell', lambda info: log.append(info.raw_cell))\n"
        "ip.events.register('post_execute', lambda: log.append('post'))"
    )
    assert kernel.run("log").text == "['post', 'log']"


@pytest.mark.parametrize(
    "code",
    [
        "loop.call_later(.05, print, 'ran')",
        "import threading\n"
        "threading.Timer(.05, loop.call_soon_threadsafe, (print, 'ran')).start()",
        "import threading\nasync def job(): return 'ran'\n"
        "ask = lambda: print(asyncio.run_coroutine_threadsafe(job(), loop).result(30))\n"
        "threading.Timer(.05, ask).start()",
        "import time\nf = loop.run_in_executor(None, time.sleep, .05)\n"
        "f.add_done_callback(lambda f: print('ran'))",
        "import os, threading\nr, w = os.pipe()\n"
        "def got(): loop.remove_reader(r); print('ran')\nloop.add_reader(r, got)\n"
        "threading.Timer(.05, os.write, (w, b'x')).start()",
        "import threading, urllib.request\n"
        "async def answer(reader, writer):\n    await reader.readline()\n"
        "    writer.write(b'HTTP/1.0 200 OK\\r\\n\\r\\nran'); writer.close()\n"
        "server = await asyncio.start_server(answer, '127.0.0.1', 0)\n"
        "url = 'http://127.0.0.1:%d' % server.sockets[0].getsockname()[1]\n"
        "ask = lambda: print(urllib.request.urlopen(url, timeout=30).read().decode())\n"
        "threading.Thread(target=ask).start()",
        "import os, signal, threading\n"
        "loop.add_signal_handler(signal.SIGUSR1, print, 'ran')\n"
        "threading.Timer(.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()",
        "loop.call_later(.01, loop.stop); loop.call_later(.05, print, 'ran')",
        "def leave(): raise SystemExit\n"
        "loop.call_later(.01, leave); loop.call_later(.05, print, 'ran')",
    ],
)
def test_the_loop_runs_between_cells(kernel: KernelClient, code: str) -> None:
    kernel.run("import asyncio; loop = asyncio.get_event_loop()")
    msg_id = kernel.start(code)
    text = ""
    while "ran" not in text:
        message = kernel.wait_for("stream")
        text += message["content"]["text"]
        assert message["parent_header"]["msg_id"] == msg_id
    kernel.interrupt()
    assert kernel.run("'next'").text == "'next'"
    assert kernel.run("await asyncio.sleep(0, 'awaited')").text == "'awaited'"


def test_an_idle_loop_does_not_wake_up(kernel: KernelClient) -> None:
    """Not even one that has a server, but no client."""
    kernel.run(
        "import asyncio, os, resource\n"
        "server = await asyncio.start_server(lambda r, w: None, '127.0.0.1', 0)\n"
        "used = lambda: resource.getrusage(resource.RUSAGE_THREAD)"
    )
    kernel.run("before = used().ru_nvcsw")
    idle = "import time; from threading import Timer; t = Timer(.3, print, ['over'])"
    kernel.run(idle + "; t.start()")
    kernel.wait_for("stream")
    assert int(kernel.run("used().ru_nvcsw - before").text) < 60


def test_cells_that_wait_leave_the_loop_its_turn(kernel: KernelClient) -> None:
    kernel.start("import asyncio, time; time.sleep(.2)")
    kernel.start(
        "asyncio.get_event_loop().call_soon(lambda: done.append(1)); done = []"
    )
    assert kernel.run("done").text == "[1]"


@pytest.mark.parametrize(
    "script",
    [
        "loop = asyncio.get_event_loop()\nloop.run_until_complete(job())\nloop.close()",
        "loop = asyncio.new_event_loop()\nasyncio.set_event_loop(loop)\n"
        "loop.run_until_complete(asyncio.gather(job(), job()))\nloop.close()",
        "asyncio.set_event_loop(asyncio.new_event_loop())\n"
        "asyncio.get_event_loop().run_until_complete(job())",
        "asyncio.set_event_loop(asyncio.new_event_loop())\n"
        "asyncio.get_event_loop().close(); asyncio.set_event_loop(None)",
        "import selectors\n"
        "loop = asyncio.SelectorEventLoop(selectors.SelectSelector())\n"
        "asyncio.set_event_loop(loop)",
    ],
)
def test_scripts_may_set_and_close_loops(kernel: KernelClient, script: str) -> None:
    kernel.run("import asyncio\nasync def job(): await asyncio.sleep(0)")
    for _ in range(2):
        assert kernel.run(script).status == "ok"
        assert kernel.run("await asyncio.sleep(0, 'awaited')").text == "'awaited'"
        late = "loop = asyncio.get_event_loop(); loop.call_later(.01, print, 'late')"
        kernel.run(late + "; loop.is_closed()")
        assert kernel.wait_for("stream")["content"]["text"] == "late\n"


def test_tasks_survive_a_script_with_a_loop_of_its_own(kernel: KernelClient) -> None:
    kernel.run("import asyncio; t = asyncio.create_task(asyncio.sleep(.05, 'slept'))")
    kernel.run(
        "loop = asyncio.new_event_loop(); asyncio.set_event_loop(loop)\n"
        "loop.run_until_complete(asyncio.sleep(0)); loop.close()"
    )
    assert kernel.run("await t").text == "'slept'"
    kernel.run("with asyncio.Runner() as one: one.run(asyncio.sleep(0))")
    assert kernel.run("t.get_loop() is asyncio.get_event_loop()").text == "True"
    error = kernel.run("await asyncio.sleep(0); asyncio.get_event_loop().close()").error
    assert "running event loop" in error["evalue"]
