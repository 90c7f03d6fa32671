"""Signals, forks, input, randomness, exits, and the zygote itself."""

from __future__ import annotations

import base64
import os
import signal
from pathlib import Path

import pytest

from .client import Cell, Died, KernelClient, Zygote


@pytest.mark.parametrize(
    "code",
    [
        "import time; print('go'); time.sleep(60)",
        "print('go')\nwhile True: pass",
        "import asyncio; print('go'); await asyncio.sleep(60)",
        "import subprocess; print('go'); subprocess.run(['sleep', '60'])",
        "import time, asyncio; await asyncio.sleep(0); print('go'); time.sleep(60)",
        "!echo go; sleep 60",
        "%%bash\necho go\nsleep 60",
    ],
)
def test_interrupt_ends_the_cell_only(kernel: KernelClient, code: str) -> None:
    kernel.run("kept = 1")
    msg_id = kernel.start(code)
    kernel.wait_for("stream")
    kernel.interrupt()
    cell = Cell(kernel.until_idle(msg_id, timeout=15))
    assert cell.error["ename"] == "KeyboardInterrupt"
    assert kernel.run("kept").text == "1"


def test_interrupt_of_an_endless_print(kernel: KernelClient) -> None:
    """Frames stay whole however often the interrupt comes."""
    for _ in range(20):
        msg_id = kernel.start("while True: print('line', flush=True)")
        kernel.wait_for("stream")
        kernel.interrupt()
        messages = kernel.until_idle(msg_id)
        assert Cell(messages).error["ename"] == "KeyboardInterrupt"
    assert kernel.run("1").stdout == ""


def test_interrupted_await_does_not_go_on(kernel: KernelClient) -> None:
    msg_id = kernel.start(
        "import asyncio; print('go'); await asyncio.sleep(.5); leaked = True"
    )
    kernel.wait_for("stream")
    kernel.interrupt()
    kernel.until_idle(msg_id)
    assert kernel.run("await asyncio.sleep(1)\n'leaked' in globals()").text == "False"


def test_interrupt_of_a_completion(kernel: KernelClient) -> None:
    kernel.run(
        "class Slow:\n    def __dir__(self):\n        print('go', flush=True)\n"
        "        while True: pass\nslow = Slow()"
    )
    msg_id = kernel.send("complete_request", {"code": "slow.", "cursor_pos": 5})
    kernel.wait_for("stream")
    kernel.interrupt()
    kernel.until_idle(msg_id, timeout=15)
    assert kernel.run("1").text == "1"


def test_interrupt_of_a_callback(kernel: KernelClient) -> None:
    kernel.run(
        "import comm\ndef on_open(one, message):\n    print('go', flush=True)\n"
        "    while True: pass\ncomm.get_comm_manager().register_target('slow', on_open)"
    )
    content = {"comm_id": "c", "target_name": "slow", "data": {}}
    msg_id = kernel.send("comm_open", content)
    kernel.wait_for("stream")
    kernel.interrupt()
    messages = kernel.until_idle(msg_id, timeout=15)
    assert "error" in [m["header"]["msg_type"] for m in messages]
    assert kernel.run("1").text == "1"


def test_interrupt_when_idle_is_ignored(kernel: KernelClient) -> None:
    for _ in range(5):
        kernel.interrupt()
    assert kernel.run("2").text == "2"


def test_replaced_handler_is_restored(kernel: KernelClient) -> None:
    kernel.run("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)")
    msg_id = kernel.start("import time; print('go'); time.sleep(60)")
    kernel.wait_for("stream")
    kernel.interrupt()
    messages = kernel.until_idle(msg_id, timeout=15)
    assert Cell(messages).error["ename"] == "KeyboardInterrupt"


def test_input_refused(kernel: KernelClient) -> None:
    for code in ("input('who? ')", "import getpass; getpass.getpass()"):
        cell = kernel.run(code)
        assert cell.error["ename"] == "StdinNotImplementedError"
        assert "nobody is there" in cell.error["evalue"]
    cell = kernel.run("import sys; sys.stdin.read()")
    assert cell.text == "''"


def test_input_answered(kernel: KernelClient) -> None:
    msg_id = kernel.start("name = input('who? ')\nname", allow_stdin=True)
    request = kernel.wait_for("input_request")
    assert request["content"] == {"prompt": "who? ", "password": False}
    kernel.send("input_reply", {"value": "ada"})
    assert Cell(kernel.until_idle(msg_id)).text == "'ada'"


def test_input_from_threads_and_tasks(kernel: KernelClient) -> None:
    for code in (
        "import threading\nlines = []\n"
        "ask = lambda: lines.append(input('who? '))\n"
        "t = threading.Thread(target=ask); t.start(); t.join(); lines[0]",
        "import asyncio; await asyncio.to_thread(input, 'who? ')",
        "async def ask(): return input('who? ')\nawait asyncio.create_task(ask())",
    ):
        msg_id = kernel.start(code, allow_stdin=True)
        request = kernel.wait_for("input_request")
        assert request["parent_header"] == {"msg_id": msg_id}
        waiting = kernel.start("'next'")  # is kept for later
        kernel.send("input_reply", {"value": "ada"})
        assert Cell(kernel.until_idle(msg_id)).text == "'ada'"
        assert Cell(kernel.until_idle(waiting)).text == "'next'"


def test_input_that_nobody_answers_any_more(kernel: KernelClient) -> None:
    for reply, ename in (
        ({"status": "error"}, "StdinNotImplementedError"),
        ({"value": "\x04"}, "EOFError"),
    ):
        msg_id = kernel.start("input()", allow_stdin=True)
        kernel.wait_for("input_request")
        kernel.send("input_reply", reply)
        error = Cell(kernel.until_idle(msg_id)).error
        assert error["ename"] == ename
        assert "stdin.py" not in "".join(error["traceback"])


def test_a_thread_asks_as_long_as_its_cell_runs(kernel: KernelClient) -> None:
    cell = kernel.start(
        "import threading\nfailed, go = [], threading.Event()\ndef ask():\n"
        "    for wait in (lambda: None, go.wait):\n        wait()\n"
        "        try: input()\n        except Exception as e: failed.append(type(e).__name__)\n"
        "t = threading.Thread(target=ask); t.start()\n"
        "import time\nwhile not started: time.sleep(.01)".replace(
            "while not started: time.sleep(.01)", "time.sleep(.05)"
        ),
        allow_stdin=True,
    )
    kernel.wait_for("input_request")  # never answered
    kernel.until_idle(cell)
    after = kernel.run("go.set(); t.join(); failed", allow_stdin=True)
    assert after.text == "['StdinNotImplementedError', 'StdinNotImplementedError']"


def test_input_interrupted(kernel: KernelClient) -> None:
    msg_id = kernel.start("input()", allow_stdin=True)
    kernel.wait_for("input_request")
    kernel.interrupt()
    messages = kernel.until_idle(msg_id, timeout=15)
    assert Cell(messages).error["ename"] == "KeyboardInterrupt"
    assert kernel.run("1").text == "1"


def test_fork_in_a_cell_answers_once(kernel: KernelClient) -> None:
    cell = kernel.run(
        "import os\nprint('before')\npid = os.fork()\n"
        "if not pid: print('child'); display('shown')\n"
        "else: status = os.waitpid(pid, 0)[1]; print('parent', status)\n"
        "'value'"
    )
    assert cell.types.count("execute_reply") == 1
    assert cell.stdout.count("before") == 1
    assert cell.stdout.count("child\n") == 1
    assert "parent 0" in cell.stdout
    assert [b["text/plain"] for b in cell.bundles] == ["'value'"]
    assert "'shown'" in cell.stdout
    cell = kernel.run("pid = os.fork()\nif not pid: 1/0\nos.waitpid(pid, 0)[1] >> 8")
    assert cell.text == "1"
    assert "ZeroDivisionError" in cell.stderr
    assert "multi-threaded" not in cell.stderr


@pytest.mark.parametrize(
    ("end", "status", "told"),
    [
        ("sys.exit()", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit(-1)", 255, ""),
        ("sys.exit('no such file')", 1, "no such file\n"),
        ("exit(4)", 4, ""),
        ("await asyncio.sleep(0); raise SystemExit(5)", 5, ""),
    ],
)
def test_a_forked_process_exits_as_a_script_does(
    kernel: KernelClient, end: str, status: int, told: str
) -> None:
    kernel.run("import asyncio, os, sys")
    cell = kernel.run(
        f"pid = os.fork()\nif not pid:\n    {end}\nos.waitpid(pid, 0)[1] >> 8"
    )
    assert (cell.text, cell.stderr) == (str(status), told)


def test_multiprocessing_pool(kernel: KernelClient) -> None:
    cell = kernel.run(
        "import multiprocessing as mp\n"
        "def sq(n):\n    print('sq', n, flush=True)\n    return n * n\n"
        "with mp.get_context('fork').Pool(2) as pool: out = pool.map(sq, range(6))\n"
        "out"
    )
    assert cell.text == "[0, 1, 4, 9, 16, 25]"
    assert sorted(cell.stdout.splitlines()) == [f"sq {n}" for n in range(6)]
    assert cell.stderr == ""


def test_spawned_process(kernel: KernelClient, tmp_path: Path) -> None:
    (tmp_path / "work_h9.py").write_text("def f(n):\n    print('n', n)\n    return n\n")
    cell = kernel.run(
        "import multiprocessing as mp, work_h9\n"
        "with mp.get_context('spawn').Pool(1) as p: r = p.map(work_h9.f, [1, 2])\nr"
    )
    assert cell.text == "[1, 2]"
    assert cell.stdout == "n 1\nn 2\n"


def test_spawned_process_after_multiprocessing_was_warmed(tmp_path: Path) -> None:
    (tmp_path / "work_h9.py").write_text("def f(n): return n\n")
    code = (
        "import work_h9\nwith mp.get_context('spawn').Pool(1) as p:"
        " r = p.map(work_h9.f, [1, 2])\nr"
    )
    one = Zygote()
    try:
        one.ask({"op": "warm", "imports": ["multiprocessing"], "cells": []})
        kernel = one.kernel(str(tmp_path))
        assert kernel.run("import multiprocessing as mp\n" + code).text == "[1, 2]"
        waited = one.kernel("/")
        where = {"op": "configure", "cwd": str(tmp_path)}
        assert waited.ask("control_request", where)["status"] == "ok"
        assert waited.run("import multiprocessing as mp\n" + code).text == "[1, 2]"
    finally:
        one.close()


def test_modules_of_the_working_directory(kernel: KernelClient, tmp_path: Path) -> None:
    """They go before those installed, and after the standard library's."""
    for name in ("wave", "this", "pip"):
        (tmp_path / f"{name}.py").write_text("mine = True\n")
    kernel.run("import wave, this, pip")
    code = "[hasattr(m, 'mine') for m in (wave, this, pip)]"
    assert kernel.run(code).text == "[False, False, True]"


def test_fork_while_a_thread_prints(kernel: KernelClient) -> None:
    cell = kernel.run(
        "import os, threading\nstop = threading.Event()\n"
        "def chat():\n    while not stop.is_set(): print('t', flush=True)\n"
        "t = threading.Thread(target=chat); t.start()\n"
        "codes = []\n"
        "for _ in range(20):\n    pid = os.fork()\n"
        "    if not pid: print('child', flush=True); os._exit(7)\n"
        "    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
        "stop.set(); t.join(); set(codes)"
    )
    assert cell.text == "{7}"
    assert cell.stdout.count("child\n") == 20


def death(zygote: Zygote, kernel: KernelClient, code: str) -> tuple[str, dict]:
    kernel.start(code)
    text = ""
    with pytest.raises(Died):
        while True:
            message = kernel.receive()
            text += message["content"].get("text", "")
    event = zygote.wait_exit(kernel.pid)
    return text, {"code": event["code"], "signal": event["signal"]}


def test_exit_code_is_reported(zygote: Zygote, kernel: KernelClient) -> None:
    text, end = death(
        zygote, kernel, "import os; os.system('echo said'); print('last'); os._exit(7)"
    )
    assert text == "said\nlast\n"
    assert end == {"code": 7, "signal": None}


@pytest.mark.parametrize(
    "code",
    [
        "import json; json.loads = json.dumps = None",
        "import os; os.getpid = lambda: 7",
        "import os; os.read = os.write = None",
        "import select; select.select = select.poll = None",
        "import base64; base64.b64decode = base64.b64encode = None",
        "import math, traceback; math.isfinite = traceback.format_exc = None",
        "import asyncio.events; asyncio.events._set_running_loop = None",
        "import time; asyncio.get_event_loop().call_later(9, print); time.monotonic = None",
    ],
)
def test_modules_that_user_code_broke(kernel: KernelClient, code: str) -> None:
    """What the host itself needs of them it has."""
    kernel.run("import asyncio, math; from IPython.display import display")
    assert kernel.run(code).status == "ok"
    cell = kernel.run("print('said'); display({'application/x': math.nan}, raw=True)")
    assert cell.stdout == "said\n"
    assert cell.bundles == [{"application/x": None}]
    assert kernel.ask("no_such_request", {})["ename"] == "LookupError"
    seed = {"op": "reseed", "seed": "c2VlZA=="}
    assert kernel.ask("control_request", seed)["status"] == "ok"
    assert kernel.run("1 + 1").text == "2"


@pytest.mark.parametrize("request_", ["no object", {"header": {"msg_id": "c0"}}])
def test_a_request_that_cannot_be_read_ends_the_kernel(
    zygote: Zygote, kernel: KernelClient, request_: object
) -> None:
    kernel.run("import atexit; atexit.register(print, 'bye')")
    kernel.frames.send(request_)
    with pytest.raises(Died):
        while True:
            kernel.receive()
    assert zygote.wait_exit(kernel.pid)["code"] == 1


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.closerange(3, 1000)",
        "import os\nnull = os.open('/dev/null', 2)\nfor fd in range(3, 100):\n    if fd != null: os.dup2(null, fd)",
    ],
)
def test_a_kernel_whose_socket_is_closed_ends(
    zygote: Zygote, kernel: KernelClient, code: str
) -> None:
    kernel.start(code)
    zygote.wait_exit(kernel.pid)


def test_a_process_forked_between_cells_ends(kernel: KernelClient) -> None:
    kernel.run(
        "import asyncio, os\nasync def fork():\n    global pid\n    pid = os.fork()\n"
        "    if not pid: asyncio.get_running_loop().stop()\n"
        "    else: print('forked')\n"
        "t = asyncio.create_task(fork())"
    )
    kernel.wait_for("stream")
    assert kernel.run("os.waitpid(pid, 0)[0] == pid").text == "True"
    assert kernel.run("await asyncio.sleep(0, 'awaited')").text == "'awaited'"


def test_signal_is_reported(zygote: Zygote, kernel: KernelClient) -> None:
    _, end = death(zygote, kernel, "import ctypes; ctypes.string_at(0)")
    assert end == {"code": None, "signal": signal.SIGSEGV}


def test_end_of_the_socket_ends_the_kernel(zygote: Zygote, tmp_path: Path) -> None:
    one = zygote.kernel(str(tmp_path))
    one.run("import atexit; atexit.register(lambda: open('bye', 'w').close())")
    one.close()
    assert zygote.wait_exit(one.pid)["code"] == 0
    assert (tmp_path / "bye").exists()


def test_shutdown_request(zygote: Zygote, kernel: KernelClient) -> None:
    reply = kernel.ask("shutdown_request", {"restart": False})
    assert reply == {"status": "ok", "restart": False}
    assert zygote.wait_exit(kernel.pid)["code"] == 0


def test_kernels_are_independent(zygote: Zygote, tmp_path: Path) -> None:
    one, two = zygote.kernel(str(tmp_path)), zygote.kernel(str(tmp_path))
    one.run("x = 1")
    assert two.run("x").error["ename"] == "NameError"
    code = "import random, numpy; random.random(), float(numpy.random.rand())"
    assert one.run(code).text != two.run(code).text
    msg_id = one.start("print('go')\nwhile True: pass")
    one.wait_for("stream")
    assert two.run("'free'").text == "'free'"
    one.interrupt()
    one.until_idle(msg_id)
    one.close()
    two.close()


def test_reseed(kernel: KernelClient) -> None:
    kernel.run("import random, numpy as np, ssl; random.seed(7)")
    seed = base64.b64encode(os.urandom(32)).decode()
    reply = kernel.ask("control_request", {"op": "reseed", "seed": seed})
    assert reply["reseeded"] == ["numpy.random", "ssl", "tempfile"]
    assert kernel.run("random.random()").text == "0.32383276483316237"
    kernel.run("np.random.seed(1); random.seed()")
    reply = kernel.ask("control_request", {"op": "reseed", "seed": seed})
    assert reply["reseeded"] == ["random", "ssl", "tempfile"]
    assert kernel.run("bool(np.random.rand() == 0.417022004702574)").text == "True"


def test_zygote_refuses_politely(zygote: Zygote) -> None:
    assert zygote.ask({"op": "ping"}) == {"ok": True}
    assert zygote.ask({"op": "dance"})["ok"] is False
    assert zygote.ask({"op": "fork", "id": "x"})["ok"] is False
    answer = zygote.ask({"op": "warm", "imports": ["no_such_module"], "cells": ["1/0"]})
    assert answer["ok"]
    assert len(answer["errors"]) == 2
