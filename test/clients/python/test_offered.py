"""What the published Python client does with a sandbox, done with ours."""

from __future__ import annotations

import base64
import threading
import time
from pathlib import Path

import pytest
from conftest import TTL, Watched
from pandastack import Client, Sandbox, templates
from pandastack.exceptions import (
    AuthError,
    BadRequestError,
    CommandFailed,
    NotFoundError,
    SandboxTimeout,
)
from pandastack.sandbox import CodeContext, SandboxFilesystem

# A letter whose UTF-8 has the byte 0x85, the character U+0085 that ends a line to
# some, one beyond the basic plane, and a line separator.
TEXT = "Å\u0085x 🐼 日本\u2028y\n"


def test_the_readmes_example(client: Watched) -> None:
    with Sandbox.create(template="code-interpreter", ttl_seconds=TTL) as sb:
        result = sb.run_code("print(2 + 2)")
        assert result.stdout.strip() == "4"
        sb.filesystem.write("/home/panda/hello.txt", "hello")
        assert sb.filesystem.read("/home/panda/hello.txt") == b"hello"
        assert sb.commands.run("python3 --version", timeout=10).stdout.startswith("Python 3.")
    with pytest.raises(NotFoundError):
        Sandbox.get(sb.id)


def test_what_a_sandbox_says_of_itself(client: Watched, sandbox: Sandbox) -> None:
    again = client.sandboxes.get(sandbox.id)
    assert (again.status, again.template, again.metadata) == (
        "running",
        "code-interpreter",
        {"test": "published Å"},
    )
    assert again.cpu >= 1 and again.memory_mb >= 512
    assert again.boot_ms > 0 and again.boot_mode in ("ready", "restored", "booted")
    assert sandbox.id in [one.id for one in Sandbox.list()]
    assert sandbox.refresh().id == sandbox.id


def test_exec(sandbox: Sandbox) -> None:
    result = sandbox.exec("printf out; printf err >&2; exit 3")
    assert (result.stdout, result.stderr, result.exit_code) == ("out", "err", 3)
    assert result.duration_ms >= 0
    assert sandbox.exec("cat", timeout_seconds=5).stdout == ""
    with pytest.raises(CommandFailed) as failed:
        sandbox.exec("echo why >&2; false", check=True)
    assert (failed.value.exit_code, failed.value.stderr) == (1, "why\n")
    assert sandbox.run_code("echo $((6 * 7))", language="bash").stdout == "42\n"


def test_a_process_that_takes_too_long(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxTimeout):
        sandbox.exec("sleep 60", timeout_seconds=1)
    with pytest.raises(SandboxTimeout):
        sandbox.exec_stream("sleep 60", timeout_seconds=1)


def test_exec_stream(sandbox: Sandbox) -> None:
    out: list[str] = []
    err: list[str] = []
    script = f"import sys; sys.stdout.write({TEXT!r}); sys.stderr.write('err'); sys.exit(7)"
    sandbox.filesystem.write("/tmp/text.py", script)
    assert sandbox.exec_stream("python3 /tmp/text.py", out.append, err.append) == 7
    assert ("".join(out), "".join(err)) == (TEXT, "err")
    assert sandbox.exec_stream("true") == 0
    assert sandbox.exec_stream("kill -KILL $$") == 137


def test_exec_stream_comes_as_it_is_printed(sandbox: Sandbox) -> None:
    came: list[float] = []
    begun = time.monotonic()
    sandbox.exec_stream(
        "for i in 1 2 3; do echo $i; sleep 1; done",
        lambda _: came.append(time.monotonic()),
    )
    ended = time.monotonic()
    assert len(came) == 3
    assert came[0] < ended - 2, (begun, came, ended)


def test_exec_stream_cuts_no_character(sandbox: Sandbox) -> None:
    pieces: list[str] = []
    # Bytes one by one, with pauses between the halves of characters.
    sandbox.filesystem.write(
        "/tmp/slow.py",
        "import os, time\n"
        "for b in 'Å🐼'.encode(): os.write(1, bytes([b])); time.sleep(0.05)\n"
        "os.write(1, b'\\xff')",
    )
    assert sandbox.exec_stream("python3 /tmp/slow.py", pieces.append) == 0
    assert "".join(pieces) == "Å🐼\ufffd"


def test_files(sandbox: Sandbox, tmp_path: Path) -> None:
    fs = sandbox.filesystem
    data = bytes(range(256)) * 40
    assert fs.write("/workspace/published/a b+Å.bin", data) == {
        "path": "/workspace/published/a b+Å.bin",
        "bytes": len(data),
    }
    assert fs.read("/workspace/published/a b+Å.bin") == data
    fs.write("/workspace/published/deep/text.txt", TEXT)
    assert fs.read("/workspace/published/deep/text.txt").decode() == TEXT
    names = {one.name: one for one in fs.listdir("/workspace/published")}
    assert set(names) == {"a b+Å.bin", "deep"}
    assert names["deep"].is_dir and names["a b+Å.bin"].size == len(data)
    stat = fs.stat("/workspace/published/a b+Å.bin")
    assert (stat.name, stat.is_dir, stat.size, stat.mode[0]) == (
        "a b+Å.bin",
        False,
        len(data),
        "-",
    )
    assert fs.exists("/workspace/published") and not fs.exists("/workspace/none")
    assert sorted((root, sorted(dirs), sorted(files)) for root, dirs, files in walked(fs)) == [
        ("/workspace/published", ["deep"], ["a b+Å.bin"]),
        ("/workspace/published/deep", [], ["text.txt"]),
    ]
    local = tmp_path / "up.bin"
    local.write_bytes(data)
    fs.upload(str(local), "/workspace/published/up.bin")
    fs.download("/workspace/published/up.bin", str(tmp_path / "down.bin"))
    assert (tmp_path / "down.bin").read_bytes() == data


def walked(fs: SandboxFilesystem) -> list[tuple[str, list[str], list[str]]]:
    return [
        (root, [one.name for one in folders], [one.name for one in files])
        for root, folders, files in fs.walk("/workspace/published")
    ]


def test_files_that_are_wrong(sandbox: Sandbox) -> None:
    with pytest.raises(NotFoundError):
        sandbox.filesystem.read("/workspace/none")
    with pytest.raises(BadRequestError):
        sandbox.filesystem.read("/workspace")
    with pytest.raises(BadRequestError):
        sandbox.filesystem.read("../etc/passwd")


def test_a_context_keeps_its_variables_and_shows_results(context: CodeContext) -> None:
    context.run_code("import pandas as pd; df = pd.DataFrame({'revenue': [1, 2, 3]})")
    table = context.run_code("df.describe()")
    assert table.error is None and table.exit_code == 0
    assert "<table" in table.results[0].html and "revenue" in table.results[0].text
    figure = context.run_code("import matplotlib.pyplot as plt; df['revenue'].plot(); plt.show()")
    assert base64.b64decode(figure.png).startswith(b"\x89PNG\r\n\x1a\n")
    shown = context.run_code("print('Å\\x85'); import sys; print('err', file=sys.stderr); 6 * 7")
    assert (shown.stdout, shown.stderr, shown.text) == ("Å\x85\n", "err\n", "42")
    json = context.run_code("from IPython.display import JSON; JSON({'a': [1]})")
    assert json.results[0].json == {"a": [1]}
    assert context.run_code("None").results == []


def test_a_cell_that_fails(context: CodeContext) -> None:
    failed = context.run_code("print('before'); 1 / 0")
    assert failed.stdout == "before\n"
    assert "ZeroDivisionError: division by zero" in failed.error and "\x1b" not in failed.error
    assert failed.exit_code == 1


def test_a_cell_that_takes_too_long(context: CodeContext) -> None:
    context.run_code("kept = 1")
    with pytest.raises(SandboxTimeout):
        context.run_code("import time\nwhile True: time.sleep(0.05)", timeout_seconds=2)
    assert context.run_code("kept").text == "1"


def test_contexts_are_closed(sandbox: Sandbox) -> None:
    with sandbox.create_code_context(language="py") as mine:
        assert mine.run_code("1 + 1").text == "2"
    with pytest.raises(NotFoundError):
        mine.run_code("1")
    with pytest.raises(BadRequestError):
        sandbox.create_code_context(language="cobol")


def test_logs(sandbox: Sandbox) -> None:
    sandbox.exec("echo 'on the console: Å' > /dev/console")
    deadline = time.monotonic() + 30
    while "on the console: Å" not in list(sandbox.logs()) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert "on the console: Å" in list(sandbox.logs(stream="stdout"))
    assert "on the console: Å" not in list(sandbox.logs(stream="stderr"))


def test_logs_are_followed(sandbox: Sandbox) -> None:
    lines: list[str] = []
    seen = threading.Event()

    def follow() -> None:
        for line in sandbox.logs(follow=True):
            lines.append(line)
            if line == "followed Å":
                seen.set()
                return

    reader = threading.Thread(target=follow, daemon=True)
    reader.start()
    sandbox.exec("echo 'followed Å' > /dev/console")
    assert seen.wait(30), lines


def test_lifecycle(sandbox: Sandbox) -> None:
    before = sandbox.lifecycle()
    assert (before["ttl_seconds"], before["persistent"]) == (TTL, False)
    assert before["idle_seconds"] >= 0
    assert sandbox.set_ttl(TTL + 1)["ttl_seconds"] == TTL + 1
    try:
        assert sandbox.set_persistent(True)["persistent"] is True
        assert Sandbox.get(sandbox.id).persistent
    finally:
        assert sandbox.set_persistent(False)["persistent"] is False


def test_a_time_to_live_that_is_set_ends_a_sandbox(client: Watched) -> None:
    mine = Sandbox.create(ttl_seconds=TTL)
    mine.set_ttl(1)
    deadline = time.monotonic() + 60
    while mine.id in [one.id for one in Sandbox.list()] and time.monotonic() < deadline:
        time.sleep(0.2)
    with pytest.raises(NotFoundError):
        mine.refresh()


def test_states(client: Watched, sandbox: Sandbox, context: CodeContext) -> None:
    context.run_code("kept = 7")
    for rest, again, status in (
        (sandbox.pause, sandbox.resume, "paused"),
        (sandbox.hibernate, sandbox.wake, "hibernated"),
    ):
        rest()
        assert sandbox.refresh().status == status
        again()
        assert sandbox.refresh().status == "running"
    sandbox.hibernate()
    assert context.run_code("kept").text == "7"  # wakes it


def test_snapshots(client: Watched, sandbox: Sandbox) -> None:
    sandbox.filesystem.write("/workspace/saved.txt", "Å")
    taken = sandbox.snapshot()
    assert client.snapshots.get(taken)["sandbox_id"] == sandbox.id
    assert [one["id"] for one in client.snapshots.list(sandbox_id=sandbox.id)] == [taken]
    with Sandbox.create(from_snapshot=taken, ttl_seconds=TTL) as made:
        assert made.from_snapshot == taken
        assert made.filesystem.read("/workspace/saved.txt") == "Å".encode()
    client.snapshots.delete(taken)
    with pytest.raises(NotFoundError):
        client.snapshots.get(taken)


def test_copies(client: Watched, sandbox: Sandbox) -> None:
    one = sandbox.fork(metadata={"copy": "one"})
    children = sandbox.fork_tree(2)
    try:
        assert Sandbox.get(one.id).metadata["copy"] == "one"
        assert all(child.exec("echo up").stdout == "up\n" for child in (one, *children))
        promoted = children[0].promote(cleanup_siblings=True)
        assert (promoted["winner"], promoted["deleted"]) == (children[0].id, [children[1].id])
    finally:
        one.kill()
        for child in client.sandboxes.list():
            if child.id in [c.id for c in children]:
                child.kill()


def test_explore(client: Watched, sandbox: Sandbox) -> None:
    found = sandbox.explore(["echo 1", "exit 3"])
    try:
        assert found.winner_outcome is not None and found.winner is not None
        assert (found.winner_outcome.label, found.winner_outcome.stdout_tail) == ("echo 1", "1\n")
        assert len(found.reaped) == 1
    finally:
        if found.winner is not None:
            found.winner.kill()


def test_templates(client: Watched) -> None:
    assert "code-interpreter" in [one.name for one in templates.list()]
    one = client.templates.get("code-interpreter")
    assert one.name == "code-interpreter" and one.memory_mb >= 512 and one.size_bytes > 0
    with pytest.raises(NotFoundError):
        client.templates.get("none")


def test_errors(client: Watched, sandbox: Sandbox) -> None:
    with pytest.raises(AuthError):
        Client(api_key="wrong").sandboxes.list()
    with pytest.raises(NotFoundError):
        Sandbox.get("none")
    with pytest.raises(NotFoundError):
        Sandbox.create(template="none")
    with pytest.raises(BadRequestError):
        Sandbox.create(ttl_seconds=-1)
    with pytest.raises(NotFoundError):
        client.sandboxes.delete("none")
