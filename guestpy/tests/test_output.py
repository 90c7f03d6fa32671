"""stdout and stderr, at every level, in order."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from .client import Cell, KernelClient


def test_print_and_stderr_keep_their_order(kernel: KernelClient) -> None:
    cell = kernel.run("import sys\nprint('a'); print('b', file=sys.stderr); print('c')")
    got = [(m["name"], m["text"]) for m in cell.of("stream")]
    assert got == [("stdout", "a\n"), ("stderr", "b\n"), ("stdout", "c\n")]


def test_child_between_prints(kernel: KernelClient) -> None:
    code = (
        "import subprocess, os\n"
        "for i in range(20):\n"
        "    print('a', i)\n    subprocess.run(['echo', 'b'])\n"
        "    print('c')\n    os.system('echo d')\n    print('e')"
    )
    want = "".join(f"a {i}\nb\nc\nd\ne\n" for i in range(20))
    assert kernel.run(code).stdout == want


def test_result_comes_after_what_was_printed(kernel: KernelClient) -> None:
    cell = kernel.run("import os\nprint('p')\nos.system('echo child')\ndisplay(1)\n2")
    assert cell.types[2:-2] == [
        "stream",
        "stream",
        "display_data",
        "execute_result",
    ]


def test_output_is_sent_while_the_cell_runs(kernel: KernelClient) -> None:
    start = time.monotonic()
    msg_id = kernel.start("import time; print('early'); time.sleep(3)")
    assert kernel.wait_for("stream")["content"]["text"] == "early\n"
    assert time.monotonic() - start < 2.5
    kernel.until_idle(msg_id)


def test_c_level_output(kernel: KernelClient) -> None:
    cell = kernel.run("import ctypes\nctypes.CDLL(None).printf(b'from C\\n')")
    assert cell.stdout == "from C\n"
    cell = kernel.run(
        "libc = ctypes.PyDLL(None); libc.printf(b'%s', b'z' * 300000)\nlibc.fflush(None)"
    )
    assert cell.stdout == "z" * 300000


def test_subprocess_with_our_stdout(kernel: KernelClient) -> None:
    code = (
        "import subprocess, sys\n"
        "subprocess.run(['echo', 'x'], stdout=sys.stdout, stderr=sys.stderr)"
    )
    assert kernel.run(code).stdout == "x\n"


def test_unicode_is_never_split(kernel: KernelClient) -> None:
    cell = kernel.run(
        "import os\nfor b in 'aé€😀'.encode(): os.write(1, bytes([b]))\n"
        "os.write(1, b'|\\xff|\\xe2\\x82'); None"
    )
    assert cell.stdout == "aé€😀|\ufffd|\ufffd"
    cell = kernel.run("import sys; sys.stdout.buffer.write('ü'.encode()); print('!')")
    assert cell.stdout == "ü!\n"


def test_lone_surrogates(kernel: KernelClient) -> None:
    assert kernel.run(r"print('a\ud800b')").stdout == "a\ufffdb\n"
    assert kernel.run("'\\ud83d\\ude00' + chr(0xd800)").status == "ok"


def test_stream_attributes(kernel: KernelClient) -> None:
    code = (
        "import sys; o = sys.stdout; o.reconfigure(line_buffering=True)\n"
        "o.writelines(['x', 'y\\n'])\n"
        "(o.encoding, o.fileno(), o.isatty(), o.closed, o.writable(), sys.stderr.fileno())"
    )
    cell = kernel.run(code)
    assert cell.stdout == "xy\n"
    assert cell.text == "('UTF-8', 1, False, False, True, 2)"
    assert kernel.run("sys.stdout.close()\nprint('still')").stdout == "still\n"
    assert kernel.run("sys.stdout.write(1)").error["ename"] == "TypeError"


def test_chatty_child_on_both_descriptors(kernel: KernelClient) -> None:
    child = (
        "import sys\nfor i in range(2000):\n"
        "    sys.stdout.write('o' * 499 + '\\\\n'); sys.stderr.write('e' * 499 + '\\\\n')"
    )
    cell = kernel.run(
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', '''{child}''']).returncode"
    )
    assert cell.text == "0"
    assert cell.stdout.count("o") == cell.stderr.count("e") == 998000


def test_large_output_is_complete(kernel: KernelClient) -> None:
    cell = kernel.run("print('x' * 5_000_000)\nfor i in range(100_000): print(i)")
    assert cell.stdout == "x" * 5_000_000 + "\n" + "".join(
        f"{i}\n" for i in range(100_000)
    )


def test_thread_output_belongs_to_the_cell_that_started_it(
    kernel: KernelClient,
) -> None:
    first = kernel.start(
        "import threading\ngo = threading.Event()\n"
        "def work():\n    go.wait()\n    print('from the thread')\n"
        "t = threading.Thread(target=work); t.start()"
    )
    kernel.until_idle(first)
    cell = kernel.run("go.set(); t.join(); print('second')")
    parents = {
        m["content"]["text"]: m["parent_header"]["msg_id"]
        for m in cell.messages
        if m["header"]["msg_type"] == "stream"
    }
    assert parents["from the thread\n"] == first
    assert parents["second\n"] != first


def test_executor_output_belongs_to_the_cell_that_submitted(
    kernel: KernelClient,
) -> None:
    kernel.run(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "pool = ThreadPoolExecutor(1); pool.submit(print, 'one').result()"
    )
    msg_id = kernel.start("pool.submit(print, 'two').result()")
    messages = kernel.until_idle(msg_id)
    (parent,) = {
        m["parent_header"]["msg_id"]
        for m in messages
        if m["header"]["msg_type"] == "stream"
    }
    assert parent == msg_id


def test_task_output_belongs_to_the_cell_that_made_it(kernel: KernelClient) -> None:
    first = kernel.start(
        "import asyncio\ngo = asyncio.Event()\n"
        "async def work():\n    await go.wait()\n    print('from the task'); display(1)\n"
        "t = asyncio.create_task(work())"
    )
    kernel.until_idle(first)
    cell = kernel.run("go.set(); await t; print('second')")
    parents = {
        m["header"]["msg_type"] + m["content"].get("text", ""): m["parent_header"][
            "msg_id"
        ]
        for m in cell.messages
        if m["header"]["msg_type"] in ("stream", "display_data")
    }
    second = cell.messages[-1]["parent_header"]["msg_id"]
    assert parents == {
        "streamfrom the task\n": first,
        "display_data": first,
        "streamsecond\n": second,
    }


def test_redirect_stdout(kernel: KernelClient) -> None:
    cell = kernel.run(
        "import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()) as f:\n"
        "    print('hidden')\nf.getvalue()"
    )
    assert (cell.stdout, cell.text) == ("", "'hidden\\n'")


def test_closed_descriptor_does_not_spin(kernel: KernelClient) -> None:
    kernel.run("import os; kept = os.dup(1); os.close(1)")
    code = "import time; a = time.process_time(); time.sleep(.3); time.process_time() - a < .2"
    assert kernel.run(code).text == "True"
    assert kernel.run("os.dup2(kept, 1); os.write(1, b'again'); None").stdout == "again"


# Numbers, each printed and flushed until an exception comes in between; whole is what
# was printed to its end.
_NUMBERS = """
import ctypes, itertools, signal, threading
number, whole = itertools.count(), []
def print_numbers():
    while True:
        n = next(number)
        print(f"{n}:{'x' * 20}\\n", end='', flush=n % 99 == 0)
        whole.append(n)
"""


def _check_numbers(kernel: KernelClient, code: str) -> None:
    """Whatever came in between, nothing is lost, and nothing comes twice."""
    cell = kernel.run(_NUMBERS + code)
    assert cell.error is None, cell.error
    lines = cell.stdout.splitlines()
    assert {len(line.partition(":")[2]) for line in lines} == {20}
    printed = [int(line.partition(":")[0]) for line in lines]
    assert printed == sorted(set(printed))
    whole = json.loads(kernel.run("print(whole)").stdout)
    assert set(whole) <= set(printed)
    msg_id = kernel.start("print('busy', flush=True)\nwhile True: pass")
    kernel.wait_for("stream")
    kernel.interrupt()
    kernel.until_idle(msg_id)


def test_exceptions_that_another_thread_raises_in_a_print(kernel: KernelClient) -> None:
    code = (
        "class Stop(Exception): pass\n"
        "def work():\n    try: print_numbers()\n    except Stop: pass\n"
        "for i in range(60):\n"
        "    t = threading.Thread(target=work); t.start(); t.join(.005 + .0003 * i)\n"
        "    ctypes.pythonapi.PyThreadState_SetAsyncExc(\n"
        "        ctypes.c_ulong(t.ident), ctypes.py_object(Stop))\n"
        "    t.join()"
    )
    _check_numbers(kernel, code)


def test_a_thread_that_waits_for_its_turn_to_print_is_stopped(
    kernel: KernelClient, tmp_path: Path
) -> None:
    """Nobody reads, so the main thread's print holds up the other one's."""
    code = (
        "import ctypes, os, threading, time\n"
        "class Stop(Exception): pass\n"
        "count = 0\n"
        "def work():\n    global count\n    try:\n"
        "        while True: print('y', flush=True); count += 1\n"
        "    except Stop: pass\n"
        "worker = threading.Thread(target=work)\n"
        "def stop():\n    worker.start(); seen = -1\n"
        "    while seen != count: seen = count; time.sleep(.3)\n"
        "    ctypes.pythonapi.PyThreadState_SetAsyncExc(\n"
        "        ctypes.c_ulong(worker.ident), ctypes.py_object(Stop))\n"
        "    open('stopped', 'w')\n"
        "stopper = threading.Thread(target=stop); stopper.start()\n"
        "print('x' * 5_000_000, flush=True)\n"
        "stopper.join(); worker.join(); print('end')"
    )
    msg_id = kernel.start(code)
    deadline = time.monotonic() + 60
    while not (tmp_path / "stopped").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert Cell(kernel.until_idle(msg_id)).stdout.endswith("end\n")


@pytest.mark.parametrize("kind", ["BaseException", "TimeoutError"])
def test_exceptions_of_a_signal_handler_in_a_print(
    kernel: KernelClient, kind: str
) -> None:
    """A TimeoutError is an OSError, as the socket's own are."""
    code = (
        f"class Stop({kind}): pass\n"
        "def stop(*_): raise Stop\n"
        "signal.signal(signal.SIGALRM, stop)\n"
        "for i in range(1000):\n"
        "    try:\n"
        "        signal.setitimer(signal.ITIMER_REAL, .001 + .000005 * i)\n"
        "        print_numbers()\n"
        "    except Stop: pass"
    )
    _check_numbers(kernel, code)


def test_a_signal_handler_that_prints_in_a_print(kernel: KernelClient) -> None:
    code = (
        "signal.signal(signal.SIGALRM, lambda *_: print('tick', flush=True))\n"
        "signal.setitimer(signal.ITIMER_REAL, .001, .001)\n"
        "for i in range(20000): print('x', flush=i % 2)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0)"
    )
    cell = kernel.run("import signal\n" + code)
    assert cell.error is None, cell.error
    assert cell.stdout.replace("tick\n", "").count("x") == 20000
    assert "tick\n" in cell.stdout
