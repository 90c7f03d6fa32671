"""Streams, logs and the lifecycle, with a real sandbox."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pandastack import CommandFailed, NotFoundError, NotOfferedError, SandboxTimeout
from tests.flavours import Flavour
from tests.live.conftest import TTL

SLACK = 30
TEXT = "Å\u0085x 🐼 日本\u2028y\n"


def test_output_as_it_comes(flavour: Flavour, either: Any) -> None:
    came: list[float] = []
    begun = time.monotonic()
    result = flavour.run(
        either.exec_stream(
            "for i in 1 2 3; do echo $i; sleep 1; done", lambda _: came.append(time.monotonic())
        )
    )
    ended = time.monotonic()
    assert (result, result.stdout, len(came)) == (0, "1\n2\n3\n", 3)
    assert came[0] < ended - 2, (begun, came, ended)


def test_text_exit_codes_and_signals(flavour: Flavour, either: Any) -> None:
    out: list[str] = []
    err: list[str] = []
    code = f"import sys; sys.stdout.write({TEXT!r}); sys.stderr.write(sys.stdin.read()); sys.exit(7)"
    result = flavour.run(
        either.exec_stream(["python3", "-c", code], out.append, err.append, stdin="in", cwd="/tmp")
    )
    assert (result, "".join(out), "".join(err), result.stdout) == (7, TEXT, "in", TEXT)
    killed = flavour.run(either.exec_stream("kill -KILL $$"))
    assert (killed, killed.signal) == (137, "SIGKILL")
    with pytest.raises(CommandFailed):
        flavour.run(either.exec_stream("false", check=True))


def test_a_limit_keeps_what_was_printed(flavour: Flavour, either: Any) -> None:
    with pytest.raises(SandboxTimeout) as caught:
        flavour.run(either.exec_stream("echo on; sleep 60", timeout=1))
    assert caught.value.partial_stdout == "on\n"


def test_a_function_that_raises_ends_the_process_group(flavour: Flavour, either: Any) -> None:
    def refuse(_: str) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError):
        flavour.run(either.exec_stream("sleep 4711 & echo on; sleep 4711; wait", refuse))
    deadline = time.monotonic() + SLACK
    while flavour.run(either.exec("pgrep -f 'sleep 471[1]'")).exit_code == 0:
        assert time.monotonic() < deadline, "the process outlived its client"
        time.sleep(0.2)


def test_much_output(flavour: Flavour, either: Any) -> None:
    seen = [0]

    def count(text: str) -> None:
        seen[0] += len(text)

    result = flavour.run(either.exec_stream("head -c 20000000 /dev/zero | tr '\\0' x", count))
    assert (result, seen[0]) == (0, 20_000_000)
    assert result.truncated.stdout.bytes == 20_000_000
    assert len(result.stdout) == result.truncated.stdout.kept == 8 << 20


def test_logs(flavour: Flavour, either: Any) -> None:
    flavour.run(either.exec("echo 'console Å' > /dev/console"))
    deadline = time.monotonic() + SLACK
    while "console Å" not in flavour.run(either.logs()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert "console Å" not in list(flavour.run(either.logs("agent")))


def test_logs_are_followed_until_the_machine_ends(flavour: Flavour) -> None:
    mine = flavour.run(flavour.Sandbox.create(ttl_seconds=TTL))
    flavour.run(mine.exec("echo followed > /dev/console"))
    flavour.run(mine.set_ttl(3))
    assert "followed" in list(flavour.run(mine.logs(follow=True)))


def test_lifecycle(flavour: Flavour, either: Any) -> None:
    assert flavour.run(either.set_ttl(TTL + 60))["ttl_seconds"] == TTL + 60
    assert flavour.run(either.refresh()).ttl_seconds == TTL + 60
    flavour.run(either.set_persistent(True))
    assert flavour.run(flavour.Sandbox.get(either.id)).persistent
    flavour.run(either.set_persistent(False))
    life = flavour.run(either.lifecycle())
    assert not life["persistent"] and life["idle_seconds"] >= 0 and life["expires_at"]


def test_a_time_to_live_ends_a_sandbox(flavour: Flavour) -> None:
    mine = flavour.run(flavour.Sandbox.create(ttl_seconds=TTL))
    flavour.run(mine.set_ttl(1))
    deadline = time.monotonic() + SLACK
    with pytest.raises(NotFoundError):
        while time.monotonic() < deadline:
            flavour.run(mine.refresh())
            time.sleep(0.2)


def test_what_is_not_offered(flavour: Flavour, either: Any) -> None:
    with pytest.raises(NotOfferedError) as caught:
        flavour.run(either.preview_urls())
    assert caught.value.code == "feature.not_offered" and caught.value.hint
