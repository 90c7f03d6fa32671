"""Cells as executions: live, durable, answered, queued and bounded, on a server that is killed on the way."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
import pytest

from pandastack import (
    AsyncClient,
    AsyncSandbox,
    Client,
    CodeContext,
    ConflictError,
    ExecutionEvent,
    InputRequest,
    Sandbox,
)
from tests.flavours import Flavour
from tests.live.conftest import TTL
from tests.live.own_server import OwnServer

# A cell that goes on once a file is there, so that nothing here depends on how quick anything is.
WAIT = "import os, time\nwhile not os.path.exists({!r}): time.sleep(0.02)\n"


@pytest.fixture(scope="module")
def mine() -> Iterator[OwnServer]:
    server = OwnServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def box(mine: OwnServer) -> Iterator[Sandbox]:
    with Client(mine.url, mine.key) as client:
        yield Sandbox.create(ttl_seconds=TTL, client=client)


@pytest.fixture
def ctx(box: Sandbox) -> Iterator[CodeContext]:
    with box.create_code_context(name="test") as context:
        yield context


def test_output_is_live(flavour: Flavour, mine: OwnServer, box: Sandbox) -> None:
    client: Any = flavour.Client(mine.url, mine.key)
    context = flavour.run(flavour.run(flavour.Sandbox.get(box.id, client=client)).create_code_context())
    go = f"/tmp/go-{flavour.name}"
    seen: list[Any] = []

    def stdout(text: str) -> None:
        seen.append(text)
        box.filesystem.write(go, b"")  # the cell waits for it: the text came while it ran

    code = (
        "print('Å🐼\\r', end='', flush=True)\n"
        + WAIT.format(go)
        + "import sys\nprint('e', file=sys.stderr)\n6 * 7"
    )
    ex = flavour.run(context.run_code(code, on_stdout=stdout, on_stderr=seen.append, on_result=seen.append))
    assert (seen[0], seen[1], seen[2].text, seen[2].is_main_result) == ("Å🐼\r", "e\n", "42", True)
    assert (ex.ok, ex.stdout, ex.stderr, ex.text, ex.rendered["stdout"]) == (
        True,
        "Å🐼\r",
        "e\n",
        "42",
        "Å🐼",
    )
    events = list(flavour.run(context.stream("print(1)\n1/0")))
    assert [(e.seq, e.type) for e in events] == [(1, "stdout"), (2, "error"), (3, "done")]
    assert events[1].error.name == events[2].execution.error.name == "ZeroDivisionError"
    flavour.run(context.close())
    flavour.run(client.aclose() if flavour.name == "async" else client.close())


def test_a_cell_outlives_the_server(mine: OwnServer, box: Sandbox, ctx: CodeContext) -> None:
    code = "print('before', flush=True)\n" + WAIT.format("/tmp/again") + "print('after')\n'end'"
    texts: list[str] = []
    restarted = threading.Event()

    def restart() -> None:
        mine.kill()
        mine.start()
        restarted.set()

    def stdout(text: str) -> None:
        texts.append(text)
        if text == "before\n":
            threading.Thread(target=restart).start()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(ctx.run_code, code, on_stdout=stdout)
        assert restarted.wait(60)
        handle = ctx.attach(ctx.queue()[0].id)
        assert [e.text for e in _some(handle.events(), 1)] == ["before\n"]
        assert handle.result().status == "running"
        box.filesystem.write("/tmp/again", b"")
        ex = running.result()
    assert (texts, ex.stdout, ex.text) == (["before\n", "after\n"], "before\nafter\n", "'end'")
    rest = list(handle.events(after=1))
    assert [e.type for e in rest] == ["stdout", "result", "done"]
    assert rest[-1].execution == ex == handle.wait() == ctx.execution(handle.id)
    assert list(handle.events(after=ex.events)) == []


def _some(events: Iterator[ExecutionEvent], count: int) -> list[ExecutionEvent]:
    return [next(events) for _ in range(count)]


def test_questions_are_answered(ctx: CodeContext) -> None:
    asked: list[InputRequest] = []

    def answer(question: InputRequest) -> str:
        asked.append(question)
        return "Ada Å"

    code = "import getpass\n(input('who? '), getpass.getpass('secret: '))"
    assert ctx.run_code(code, on_input=answer).text == "('Ada Å', 'Ada Å')"
    assert asked == [InputRequest("who? "), InputRequest("secret: ", True)]
    ex = ctx.run_code("a, b = input(), input()\nprint(a + b)\ninput()", stdin="1\n2\n")
    assert ex.stdout.endswith("12\n")
    assert ex.error is not None
    assert ex.error.name == "EOFError"
    refused = ctx.run_code("input()")
    assert refused.error is not None
    assert refused.error.name == "StdinNotImplementedError"
    handle = ctx.start("input('later? ')", allow_stdin=True)
    assert next(e for e in handle.events() if e.type == "input_request").input == InputRequest("later? ")
    assert handle.result().input == InputRequest("later? ")
    handle.input("yes")
    assert handle.wait().text == "'yes'"
    with pytest.raises(ConflictError) as late:
        handle.input("no")
    assert late.value.code == "execution.no_input"


def test_what_threads_print_later(ctx: CodeContext) -> None:
    code = "import threading\ngo = threading.Event()\n"
    code += "threading.Thread(target=lambda: (go.wait(), print('late', end=''))).start()\nprint('in time')"
    handle = ctx.attach(ctx.run_code(code, check=True).id)
    heard: list[ExecutionEvent] = []
    for event in handle.events(follow="all"):
        heard.append(event)
        if event.type == "done":
            ctx.run_code("go.set()", check=True)
        if event.text == "late":
            ctx.restart()  # nothing can follow
    assert [event.type for event in heard] == ["stdout", "done", "stdout"]
    assert [event.type for event in handle.events()] == ["stdout", "done"]
    assert [event.text for event in handle.events(after=2)] == ["late"]
    assert [event.seq for event in handle.events(follow="none")] == [1, 2, 3]
    assert handle.result().stdout == "in time\nlate"


WIDGETS = """
import ipywidgets
from comm import get_comm_manager
slider = ipywidgets.IntSlider(max=50)
slider.observe(lambda change: print('now', change.new), 'value')
button = ipywidgets.Button()
button.on_click(lambda _: 1 / 0)
def turned(comm, _):
    comm.on_msg(lambda m: comm.send({}, buffers=[bytes(b)[::-1] for b in m['buffers']]))
get_comm_manager().register_target('turned', turned)
print(slider.model_id, button.model_id)
"""


def widgets_answer(ctx: CodeContext) -> None:
    """Moves a slider, clicks a button, and sends bytes there and back."""
    slider, button = ctx.run_code(WIDGETS, check=True).stdout.split()
    moved = ctx.send_comm(slider, {"method": "update", "state": {"value": 7}})
    assert (moved.stdout, moved.status, moved.execution_count) == ("now 7\n", "ok", 0)
    assert ctx.run_code("slider.value").text == "7"
    clicked = ctx.send_comm(button, {"method": "custom", "content": {"event": "click"}})
    assert clicked.error is not None
    assert clicked.error.name == "ZeroDivisionError"
    ctx.send_comm("mine", kind="comm_open", target_name="turned")
    came: list[ExecutionEvent] = []
    ctx.send_comm("mine", buffers=[bytes(range(256)), b""], on_event=came.append)
    (comm,) = (event.comm for event in came if event.comm is not None)
    assert (comm["comm_id"], comm["msg_type"]) == ("mine", "comm_msg")
    assert [base64.b64decode(one) for one in comm["buffers"]] == [bytes(range(256))[::-1], b""]


def test_widgets_are_moved(ctx: CodeContext) -> None:
    widgets_answer(ctx)


def test_ipykernel_over_zeromq(box: Sandbox) -> None:
    spec = {
        "argv": ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "language": "python",
        "interrupt_mode": "message",
    }
    folder = "/usr/local/share/jupyter/kernels/by-message"
    box.filesystem.write(f"{folder}/kernel.json", json.dumps(spec).encode())
    with box.create_code_context(kernel="by-message") as ctx:
        widgets_answer(ctx)
        endless = ctx.start("kept = 41\nprint('on', flush=True)\nwhile True: pass")
        next(endless.events())
        endless.cancel()
        error = endless.wait().error
        assert error is not None
        assert error.name == "KeyboardInterrupt"
        assert ctx.run_code("kept + 1").text == "42"


def test_a_history_is_exported_with_its_outputs(ctx: CodeContext, tmp_path: Path) -> None:
    ctx.run_code("'lost'")
    ctx.restart()
    ctx.run_code("print('Å')\n6 * 7")
    ctx.run_code("1/0")
    exported = json.loads(ctx.export_notebook(tmp_path / "out.ipynb").read_text(encoding="utf-8"))
    nbformat.validate(exported)
    first, second = exported["cells"]
    assert [one["output_type"] for one in first["outputs"]] == ["stream", "execute_result"]
    assert (first["outputs"][0]["text"], first["outputs"][1]["data"]) == (["Å\n"], {"text/plain": ["42"]})
    assert [one["ename"] for one in second["outputs"]] == ["ZeroDivisionError"]


def test_queue(box: Sandbox, ctx: CodeContext) -> None:
    first = ctx.start("print('on', flush=True)\nimport time\nwhile True: time.sleep(0.02)")
    next(first.events())
    fails = ctx.start("1/0", stop_on_error=True, batch="b")
    aborted = ctx.start("'never'", batch="b")
    cancelled = ctx.start("'never'")
    last = ctx.start("'last'")
    assert [(one.status, one.position) for one in ctx.queue()] == [
        ("running", 0), ("queued", 1), ("queued", 2), ("queued", 3), ("queued", 4)
    ]  # fmt: skip
    assert (ctx.refresh().waiting, ctx.name) == (4, "test")
    with pytest.raises(ConflictError) as busy:
        ctx.complete("pri")
    assert busy.value.code == "context.busy"
    cancelled.cancel()
    first.cancel()
    errors = [handle.wait().error for handle in (first, fails, aborted, cancelled)]
    assert [e and e.name for e in errors] == ["KeyboardInterrupt", "ZeroDivisionError", "Aborted", "Aborted"]
    assert "batch" in str(errors[2])
    assert "cancelled" in str(errors[3])
    assert last.wait().text == "'last'"


def test_restart_and_questions(ctx: CodeContext) -> None:
    ctx.run_code("answer = 42", check=True)
    assert "answer" in ctx.complete("answ").matches
    assert "int" in ctx.inspect("answer")["text/plain"]
    assert ctx.is_complete("for x in y:") == "incomplete"
    assert [entry.code for entry in ctx.history()] == ["answer = 42"]
    running = ctx.start("import time; time.sleep(600)")
    assert ctx.restart().restarts == 1
    ended = running.wait()
    assert ended.error is not None
    assert (ended.error.name, ended.context_restarted) == ("KernelDied", True)
    assert "restarted" in ended.error.value
    ex = ctx.run_code("'answer' in globals()")
    assert (ex.text, ex.execution_count, ex.context_restarted) == ("False", 1, True)


def test_much_output_hurts_nobody(mine: OwnServer, ctx: CodeContext) -> None:
    ex = ctx.run_code("print('\\n'.join(f'{i:06} ' + 'ü' * 20 for i in range(100_000)))")
    assert ex.truncated is not None
    assert ex.truncated.stdout is not None
    cut = ex.truncated.stdout
    assert (cut.bytes, cut.lines, cut.kept) == (100_000 * 48, 100_000, len(ex.stdout.encode()))
    assert 65_000 < cut.kept <= 65_536
    assert ex.stdout.startswith("000000 ü")
    assert ex.stdout.endswith("099999 " + "ü" * 20 + "\n")
    whole = ctx.attach(ex.id).output()
    assert len(whole.encode()) == cut.bytes
    assert whole.splitlines()[50_000].startswith("050000")
    all_of_it = ctx.run_code("print('x' * 100_000)", max_output=200_000)
    assert (len(all_of_it.stdout), all_of_it.truncated) == (100_001, None)
    large = ctx.run_code("'y' * 100_000_000")
    assert large.ok
    assert large.text is None or len(large.text) < 20_000_000
    endless = ctx.start("while True: print('z' * 1000)")
    for event in endless.events():
        if event.seq == 50:
            endless.cancel()
    assert endless.wait().status == "error"
    assert ctx.run_code("1 + 1").text == "2"
    assert mine.peak_memory() < 600 << 20


def test_hogs_starve_nobody(box: Sandbox, ctx: CodeContext) -> None:
    hogs = "for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; wait"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(box.exec_stream, f"echo on; timeout 5 sh -c '{hogs}'")
        assert ctx.run_code("1 + 1").text == "2"
        dies = ctx.run_code("x = bytearray(8 << 30)", timeout=120)
        grows = ctx.run_code("x = []\nwhile True: x.append(bytearray(16 << 20))", timeout=120)
        running.result()
    assert dies.error is not None
    assert grows.error is not None
    assert grows.error.name in ("MemoryError", "KernelDied")
    assert ctx.run_code("'alive'").text == "'alive'"


def test_async_callbacks_and_questions(mine: OwnServer, box: Sandbox) -> None:
    import asyncio

    async def job() -> None:
        async with AsyncClient(mine.url, mine.key) as client:
            sandbox = await AsyncSandbox.get(box.id, client=client)
            async with await sandbox.create_code_context() as context:
                texts: list[str] = []

                async def stdout(text: str) -> None:
                    await asyncio.sleep(0)
                    texts.append(text)

                async def answer(question: InputRequest) -> str:
                    return question.prompt.upper()

                ex = await context.run_code("print(input('abc'))", on_stdout=stdout, on_input=answer)
                assert (ex.ok, "".join(texts)[-4:]) == (True, "ABC\n")
                handle = await context.start("print('later')")
                assert [e.type async for e in handle.events()] == ["stdout", "done"]

    asyncio.run(job())
