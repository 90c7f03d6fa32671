"""Limits, errors, packages, processes, files and many sandboxes at once."""

from __future__ import annotations

import asyncio
import hashlib
import random
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from pandastack import (
    AsyncSandbox,
    AuthError,
    BadRequestError,
    CellFailed,
    Client,
    CodeContext,
    CommandFailed,
    NotFoundError,
    Sandbox,
    SandboxTimeout,
    _discovery,
)
from tests.live.pictures import picture

# Seconds that an interrupt, its answer and a busy machine may take.
SLACK = 30


def test_what_a_sandbox_says_of_itself(sandbox: Sandbox) -> None:
    again = Sandbox.get(sandbox.id)
    assert (again.status, again.template) == ("running", "code-interpreter")
    assert again.isolation in ("hardware-vm", "emulated-vm+jail", "emulated-vm")
    assert again.accelerator in ("kvm", "tcg")
    assert again.start.kind in ("ready", "restored", "booted")
    assert again.start.total_ms > 0
    assert again.start.steps
    assert sandbox.id in [one.id for one in Sandbox.list()]


def test_server_and_templates() -> None:
    with Client() as client:
        assert client.version().version
        assert "code-interpreter" in [template.name for template in client.templates.list()]
        template = client.templates.get("code-interpreter")
        assert template.status == "ready"
        assert template.packages
        with pytest.raises(NotFoundError) as caught:
            client.templates.get("no-such")
        assert caught.value.code == "template.not_found"


def test_figures_are_charts(context: CodeContext) -> None:
    values = "towns, rain = ['Ash', 'Birch'], [12.5, 30]\n"
    drawn = context.run_code(
        values + "import matplotlib.pyplot as plt\n"
        "plt.bar(towns, rain, label='mm'); plt.title('Rain per town'); plt.ylabel('Rain (mm)'); plt.show()",
        check=True,
    )
    shown = context.run_code(
        "import plotly.graph_objects as go\n"
        "fig = go.Figure(go.Bar(x=towns, y=rain, name='mm'))\n"
        "fig.update_layout(title='Rain per town', yaxis_title='Rain (mm)')",
        check=True,
    )
    assert picture(drawn.png or "")
    for execution in (drawn, shown):
        assert execution.chart is not None
        (axes,) = execution.chart.axes
        assert (execution.chart.type, execution.chart.title) == ("bar", "Rain per town")
        assert axes.x is not None and axes.y is not None
        assert (axes.x.scale, axes.y.label, axes.y.unit) == ("categorical", "Rain (mm)", "mm")
        (bars,) = axes.series
        assert (bars.label, bars.points) == ("mm", [("Ash", 12.5), ("Birch", 30)])


def test_an_arrow_table_comes_as_values(context: CodeContext) -> None:
    context.run_code(
        "import pyarrow as pa, pyarrow.parquet as pq\n"
        "columns = {'n': range(2000), 'town': pa.array(['Ash', None] * 1000).dictionary_encode(),"
        " 'at': pa.array([1] * 2000, pa.timestamp('ms', 'Europe/Paris')), 'mm': [[0.5, None]] * 2000}\n"
        "pq.write_table(pa.table(columns), 'rain.parquet')",
        check=True,
    )
    ex = context.run_code("pq.read_table('rain.parquet')", check=True)
    assert (ex.text or "").startswith("pyarrow.Table")
    table = ex.results[0].table
    assert table is not None
    assert (table.kind, table.row_count, table.column_count, table.truncated) == ("dataframe", 2000, 4, True)
    assert [column.name for column in table.columns] == ["n", "town", "at", "mm"]
    assert table.columns[2].dtype == "timestamp[ms, tz=Europe/Paris]"
    assert len(table.rows) == 100
    last = {"n": 99, "town": None, "at": "1970-01-01T01:00:00.001000+01:00", "mm": [0.5, None]}
    assert table.records()[-1] == last
    array = context.run_code("pa.chunked_array([[1], [None]])", check=True).results[0].table
    assert array is not None
    assert (array.kind, array.rows) == ("series", [[1], [None]])


def test_a_limit_is_honoured(context: CodeContext) -> None:
    context.run_code("kept = 'kept'", check=True)
    begun = time.monotonic()
    ex = context.run_code("import time\nprint('on')\nwhile True: time.sleep(0.05)", timeout=2)
    assert 2 <= time.monotonic() - begun < 2 + SLACK
    assert ex.error is not None
    assert (ex.status, ex.error.name, ex.stdout) == ("timeout", "Timeout", "on\n")
    assert context.run_code("kept").text == "'kept'"


def test_a_long_cell_outlasts_the_clients_timeout(sandbox: Sandbox, context: CodeContext) -> None:
    with Client(timeout=1) as client:
        mine = Sandbox.get(sandbox.id, client=client).context(context.id)
        assert mine.run_code("import time; time.sleep(3); 'slept'").text == "'slept'"


def test_interrupt(sandbox: Sandbox, context: CodeContext) -> None:
    watcher = sandbox.context(context.id)

    def interrupt() -> None:
        deadline = time.monotonic() + SLACK
        while watcher.refresh().status != "busy" and time.monotonic() < deadline:
            pass
        watcher.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    ex = context.run_code("import time\nwhile True: time.sleep(0.05)", timeout=2 * SLACK)
    thread.join()
    assert ex.error is not None
    assert ex.error.name == "KeyboardInterrupt"


def test_an_execution_can_be_asked_for_later(context: CodeContext) -> None:
    ex = context.run_code("6 * 7")
    assert ex.id
    assert context.execution(ex.id).text == "42"
    with pytest.raises(NotFoundError) as caught:
        context.execution("0" * 32)
    assert caught.value.code == "execution.not_found"


def test_contexts_are_apart(sandbox: Sandbox, context: CodeContext) -> None:
    context.run_code("mine = 1", check=True)
    with sandbox.create_code_context(cwd="/tmp", env={"PANDA": "ü"}) as other:
        code = "import os; os.getcwd(), os.environ['PANDA'], 'mine' in dir()"
        assert other.run_code(code).text == "('/tmp', 'ü', False)"
        assert {context.id, other.id} <= {one.id for one in sandbox.contexts()}
    with pytest.raises(NotFoundError) as caught:
        other.run_code("1")
    assert caught.value.code == "context.not_found"
    other.close()


def test_check(sandbox: Sandbox, context: CodeContext) -> None:
    with pytest.raises(CellFailed, match="ZeroDivisionError: division by zero") as caught:
        context.run_code("print('x'); 1/0", check=True)
    assert caught.value.execution is not None
    assert caught.value.execution.stdout == "x\n"
    with pytest.raises(CommandFailed, match="exit code 3") as failed:
        sandbox.exec("echo no >&2; exit 3", check=True)
    assert (failed.value.exit_code, failed.value.stderr) == (3, "no\n")


def test_a_syntax_error_shows_the_line(context: CodeContext) -> None:
    ex = context.run_code("x = 1\nif x\n    pass")
    assert ex.error is not None
    assert ex.error.name == "SyntaxError"
    assert "if x" in str(ex.error)
    assert "\x1b[" not in str(ex.error)


def test_a_process_limit(sandbox: Sandbox) -> None:
    begun = time.monotonic()
    with pytest.raises(SandboxTimeout) as caught:
        sandbox.exec("echo so far; sleep 600", timeout=2)
    assert 2 <= time.monotonic() - begun < 2 + SLACK
    assert caught.value.partial_stdout == "so far\n"


def test_long_one_shot_code(sandbox: Sandbox) -> None:
    code = f"text = {'ä' * 200_000!r}\nprint(len(text))"
    assert sandbox.run_code(code).stdout == "200000\n"
    assert sandbox.run_code(f"# {'x' * 200_000}\necho $((6*7))", "shell").stdout == "42\n"


def test_pip_install_of_an_uploaded_wheel(sandbox: Sandbox, context: CodeContext, tmp_path: Path) -> None:
    wheel = tmp_path / "panda_probe-1.0-py3-none-any.whl"
    about = "panda_probe-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("panda_probe.py", "ANSWER = 42\n")
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: panda-probe\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        names = ("panda_probe.py", f"{about}/METADATA", f"{about}/WHEEL", f"{about}/RECORD")
        archive.writestr(f"{about}/RECORD", "".join(f"{name},,\n" for name in names))
    sandbox.filesystem.upload(wheel, "/workspace/")
    ex = context.run_code(f"%pip install --no-index /workspace/{wheel.name}")
    assert ex.error is None
    assert "Successfully installed panda" in ex.stdout
    assert context.run_code("import panda_probe; panda_probe.ANSWER").text == "42"


@pytest.mark.parametrize("name", ["plain.bin", "mit Leerzeichen.bin", "数据 🐼.bin", "a%2Fb#c?d&e=f+g.bin"])
def test_binary_files_and_names(sandbox: Sandbox, name: str) -> None:
    content = random.Random(name).randbytes(300_000) + bytes(range(256))
    path = f"/workspace/names/{name}"
    assert sandbox.filesystem.write(path, content) == {"path": path, "bytes": len(content)}
    assert sandbox.filesystem.read(path) == content
    info = sandbox.filesystem.stat(path)
    assert (info.name, info.size, info.is_dir) == (name, len(content), False)
    assert name in [entry.name for entry in sandbox.filesystem.list("/workspace/names")]


def test_large_files_go_both_ways(sandbox: Sandbox, tmp_path: Path) -> None:
    up, down = tmp_path / "up.bin", tmp_path / "down.bin"
    up.write_bytes(random.Random(1).randbytes(8 << 20))
    steps: list[int] = []
    sandbox.filesystem.upload(up, "large.bin", lambda sent, total: steps.append(sent))
    there = sandbox.exec(["sha256sum", "/workspace/large.bin"], check=True).stdout.split()[0]
    assert there == hashlib.sha256(up.read_bytes()).hexdigest()
    sandbox.filesystem.download("large.bin", down)
    assert down.read_bytes() == up.read_bytes()
    assert steps[-1] == 8 << 20
    assert len(steps) > 1


def test_small_matters_of_files(sandbox: Sandbox) -> None:
    files = sandbox.filesystem
    files.write("tree/a/empty", b"")
    files.write("tree/text", "ü\n")
    files.write("tree/text", "short")
    sandbox.exec("ln -s .. tree/a/loop", check=True)
    assert files.read("tree/a/empty") == b""
    assert files.read("tree/text") == b"short"
    assert files.exists("tree")
    assert not files.exists("tree/none")
    assert not files.exists("tree/text/below-a-file")
    found = [
        (at, [d.name for d in folders], [f.name for f in there])
        for at, folders, there in files.walk("/workspace/tree")
    ]
    assert found[0] == ("/workspace/tree", ["a"], ["text"])
    assert len(found) == 2
    assert "empty" in found[1][2]


def test_kernels_of_the_template(sandbox: Sandbox) -> None:
    with sandbox.create_code_context("bash") as bash:
        assert (bash.language, bash.kernel) == ("bash", "bash")
        bash.run_code("x=41", check=True)
        assert bash.run_code("echo $((x + 1))", check=True).stdout == "42\n"
        failed = bash.run_code("sh -c 'exit 3'").error
        assert failed is not None and failed.value == "3"
    with sandbox.create_code_context(kernel="ipykernel") as ipykernel:
        assert (ipykernel.language, ipykernel.kernel) == ("python", "ipykernel")
        ipykernel.run_code("x = 41", check=True)
        assert ipykernel.run_code("x + 1", check=True).text == "42"


def test_unknown_things(sandbox: Sandbox) -> None:
    with pytest.raises(NotFoundError, match="template ls") as template:
        Sandbox.create(template="no-such-template")
    assert (template.value.status, template.value.code) == (404, "template.not_found")
    with pytest.raises(NotFoundError) as unknown:
        Sandbox.get("abcdefghij0123456789")
    assert unknown.value.code == "sandbox.not_found"
    with pytest.raises(BadRequestError) as language:
        sandbox.create_code_context(language="cobol")
    assert language.value.code == "context.unsupported_language"
    assert 'bash (kernel "bash")' in str(language.value)


def test_a_wrong_key(server: _discovery.Endpoint) -> None:
    with Client(server.url, "wrong") as client, pytest.raises(AuthError) as caught:
        client.sandboxes.list()
    assert (caught.value.status, caught.value.code) == (401, "auth.wrong_key")
    assert caught.value.hint


@pytest.mark.parametrize("body", [b"{", b"[1, 2", b"\xff\xfe", b""])
def test_bad_json(server: _discovery.Endpoint, body: bytes) -> None:
    headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"}
    address = f"{server.url}/v1/sandboxes/abcdefghij0123456789/exec"
    answer = httpx.post(address, content=body, headers=headers, trust_env=False)
    assert answer.status_code in (400, 422)
    assert {"error", "code", "hint"} <= answer.json().keys()
    if body:
        assert answer.json()["code"] == "request.bad_json"


def test_environment_metadata_and_the_end_of_with() -> None:
    with Sandbox.create(env={"PANDA": "ü"}, metadata={"who": "test"}, ttl_seconds=600) as sandbox:
        assert sandbox.exec("echo $PANDA").stdout == "ü\n"
        again = Sandbox.get(sandbox.id)
        assert (again.metadata, again.ttl_seconds) == ({"who": "test"}, 600)
        with sandbox.create_code_context() as context:
            assert context.run_code("import os; os.environ['PANDA']").text == "'ü'"
    with pytest.raises(NotFoundError):
        sandbox.refresh()
    sandbox.kill()


def test_eight_at_once() -> None:
    def one(number: int) -> str:
        with Sandbox.create(ttl_seconds=600, timeout=300) as sandbox:
            with sandbox.create_code_context() as context:
                context.run_code(f"number = {number}", check=True)
                ex = context.run_code("import os; number, os.urandom(8).hex()", check=True)
            assert ex.text is not None
            return ex.text

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(one, range(8)))
    assert [answer.split(",")[0] for answer in answers] == [f"({number}" for number in range(8)]
    assert len({answer.split(",")[1] for answer in answers}) == 8, "two sandboxes drew the same random bytes"


def test_async(tmp_path: Path) -> None:
    async def job() -> None:
        async with await AsyncSandbox.create(ttl_seconds=600) as sandbox:
            first, second = await asyncio.gather(sandbox.create_code_context(), sandbox.create_code_context())
            await sandbox.filesystem.write("in.csv", "n\n1\n2\n")
            code = "import pandas as pd; df = pd.read_csv('in.csv'); df"
            ex, other = await asyncio.gather(first.run_code(code), second.run_code("'other'"))
            assert "<table" in (ex.html or "")
            assert other.text == "'other'"
            picture((await first.run_code("_ = df.plot()")).png)
            late = await second.run_code("while True: pass", timeout=1)
            assert late.error is not None
            assert late.error.name == "Timeout"
            await first.run_code("df.to_csv('out.csv')", check=True)
            local = await sandbox.filesystem.download("out.csv", tmp_path)
            assert local.read_text() == ",n\n0,1\n1,2\n"
            names = [f.name async for _, _, files in sandbox.filesystem.walk("/workspace") for f in files]
            assert {"in.csv", "out.csv"} <= set(names)
            assert (await sandbox.exec(["false"])).exit_code == 1
        with pytest.raises(NotFoundError):
            await AsyncSandbox.get(sandbox.id)

    asyncio.run(job())
