"""What is sent."""

from __future__ import annotations

import inspect
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import pandastack
from tests.flavours import Flavour
from tests.unit.wire_server import WireServer, answer, hang_up

RESULT = answer(200, {"exit_code": 0})


def test_ids_and_paths_are_encoded(flavour: Flavour, wire: WireServer, client: Any) -> None:
    wire.reply(answer(200, {"id": "a/../b"}), answer(200, b"x"))
    sandbox = flavour.run(client.sandboxes.get("a/../b"))
    flavour.run(sandbox.filesystem.read("/tmp/ä b&c=?#%.csv"))
    assert wire.requests[0].target == "/v1/sandboxes/a%2F..%2Fb"
    path = wire.requests[1].target.partition("?path=")[2]
    assert path.lower().replace("+", "%20").replace("/", "%2f") == "%2ftmp%2f%c3%a4%20b%26c%3d%3f%23%25.csv"


@pytest.mark.parametrize("value", ["", ".", "..", None])
def test_what_cannot_be_an_id_is_not_sent(flavour: Flavour, client: Any, value: Any) -> None:
    with pytest.raises(ValueError, match="not an id"):
        flavour.run(client.sandboxes.get(value))


@pytest.mark.parametrize(
    ("base", "target"), [("", "/v1/health"), ("/v1/", "/v1/health"), ("/p", "/p/v1/health")]
)
def test_base_path(flavour: Flavour, wire: WireServer, base: str, target: str) -> None:
    wire.reply(answer(200, {"status": "ok"}))
    with flavour.using(flavour.Client(wire.url + base)) as client:
        assert flavour.run(client.health()).status == "ok"
    assert wire.requests[0].target == target
    assert "authorization" not in wire.requests[0].headers


def test_netrc_and_proxies_are_not_used_on_loopback(
    flavour: Flavour, wire: WireServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login eve password pw\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    wire.reply(answer(200, {"items": []}))
    with flavour.using(flavour.Client(wire.url, "key")) as client:
        flavour.run(client.sandboxes.list())
    assert wire.requests[0].headers["authorization"] == "Bearer key"


def test_exec(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    wire.reply(RESULT, RESULT)
    flavour.run(sandbox.exec("ls | wc", 5))
    flavour.run(sandbox.exec(["cat"], cwd="/tmp", env={"A": "1"}, stdin="in", timeout=2.5))
    assert wire.requests[0].json == {"cmd": "ls | wc", "timeout_seconds": 5}
    assert wire.requests[1].json == {
        "argv": ["cat"], "cwd": "/tmp", "env": {"A": "1"}, "stdin": "in", "timeout_seconds": 2.5,
    }  # fmt: skip


@pytest.mark.parametrize("command", [[], [1], ["a", None]])
def test_what_is_no_command(flavour: Flavour, sandbox: Any, command: Any) -> None:
    with pytest.raises(TypeError, match="command"):
        flavour.run(sandbox.exec(command))


def test_check(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    wire.reply(answer(200, {"exit_code": 137, "signal": "SIGKILL", "stdout": "half"}))
    with pytest.raises(pandastack.CommandFailed, match="make was ended by SIGKILL") as caught:
        flavour.run(sandbox.exec("make", check=True))
    assert (caught.value.exit_code, caught.value.stdout) == (137, "half")


@pytest.mark.parametrize(
    ("language", "short", "long"),
    [("python", ["python3", "-c"], ["python3", "-"]), ("shell", ["bash", "-c"], ["bash", "-s"])],
)
def test_one_shot(
    flavour: Flavour, wire: WireServer, sandbox: Any, language: str, short: list[str], long: list[str]
) -> None:
    huge = "ä" * 60_000
    wire.reply(RESULT, RESULT)
    flavour.run(sandbox.run_code("1", language))
    flavour.run(sandbox.run_code(huge, language, timeout=3))
    assert wire.requests[0].json == {"argv": [*short, "1"]}
    assert wire.requests[1].json == {"argv": long, "stdin": huge, "timeout_seconds": 3}


def test_one_shot_language(flavour: Flavour, sandbox: Any) -> None:
    with pytest.raises(ValueError, match="'python' or 'shell'"):
        flavour.run(sandbox.run_code("1", "cobol"))


@pytest.mark.parametrize("limits", [{"timeout": 0}, {"timeout": -1}, {"timeout": float("inf")},
                                    {"timeout": 1, "timeout_seconds": 2}])  # fmt: skip
def test_what_is_no_limit(flavour: Flavour, context: Any, limits: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="timeout"):
        flavour.run(context.run_code("1", **limits))


def test_a_large_upload_takes_little_memory(
    flavour: Flavour, wire: WireServer, sandbox: Any, tmp_path: Path
) -> None:
    size = 64 << 20
    local = tmp_path / "big.bin"
    with local.open("wb") as file:
        file.truncate(size)
    wire.reply(answer(200, {"path": "/workspace/big.bin", "bytes": size}))
    seen: list[tuple[int, int]] = []
    tracemalloc.start()
    written = flavour.run(sandbox.filesystem.upload(local, "/workspace/", lambda *at: seen.append(at)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert written == {"path": "/workspace/big.bin", "bytes": size}
    assert wire.requests[0].target.replace("%2F", "/") == "/v1/sandboxes/s1/fs?path=/workspace/big.bin"
    assert wire.requests[0].headers["content-length"] == str(size)
    assert seen[-1] == (size, size)
    assert peak < 16 << 20


def test_an_upload_is_repeated_from_its_start(
    flavour: Flavour, wire: WireServer, sandbox: Any, tmp_path: Path
) -> None:

    local = tmp_path / "a.txt"
    local.write_text("whole")
    wire.reply(hang_up, answer(200, {"path": "/workspace/a.txt", "bytes": 5}))
    flavour.run(sandbox.filesystem.upload(local, "a.txt"))
    assert [request.body for request in wire.requests] == [b"whole", b"whole"]


def test_walk_follows_no_links(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    entry = {"name": "d", "path": "/w/d", "is_dir": True}
    loop = {"name": "loop", "path": "/w/loop", "is_dir": True, "link": "/w"}
    file = {"name": "f", "path": "/w/f", "is_dir": False}
    wire.reply(answer(200, {"entries": [entry, loop, file]}), answer(200, {"entries": None}))
    found = [
        (at, [d.name for d in folders], [f.name for f in files])
        for at, folders, files in flavour.run(sandbox.filesystem.walk("/w"))
    ]
    assert found == [("/w", ["d", "loop"], ["f"]), ("/w/d", [], [])]


@pytest.mark.parametrize(
    ("function", "published"),
    [
        (
            pandastack.Sandbox.create,
            "template cpu memory_mb metadata ttl_seconds persistent from_snapshot volumes",
        ),
        (
            pandastack.Client("http://x", "k").sandboxes.create,
            "template cpu memory_mb ttl_seconds persistent metadata from_snapshot volumes",
        ),
        (pandastack.Sandbox.exec, "self cmd timeout_seconds check"),
        (pandastack.Sandbox.run_code, "self code language"),
        (pandastack.Sandbox.create_code_context, "self language"),
        (pandastack.CodeContext.run_code, "self code timeout_seconds"),
        (pandastack.SandboxCommands.run, "self cmd timeout"),
        (pandastack.SandboxFilesystem.write, "self path data"),
        (pandastack.SandboxFilesystem.upload, "self local remote"),
        (pandastack.SandboxFilesystem.download, "self remote local"),
        (pandastack.Client, "api_url api_key timeout api_base max_create_retry_seconds on_create_retry"),
    ],
)  # fmt: skip
def test_the_published_signatures_still_work(function: Any, published: str) -> None:
    names = list(inspect.signature(function).parameters)
    assert names[: len(published.split())] == published.split()


def test_the_blocking_flavour_is_up_to_date() -> None:
    script = Path(__file__).parents[2] / "generate_sync.py"
    subprocess.run([sys.executable, str(script), "--check"], check=True)
