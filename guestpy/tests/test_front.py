"""A kernel behind ZeroMQ: what Jupyter's suite does not ask."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .client import DEADLINE
from .jupyter import OURS, Message, Peer

pytestmark = pytest.mark.usefixtures("kernelspecs")


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    one = Peer(OURS, str(tmp_path))
    yield one
    one.close()


def eventually(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def gone(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return (
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        )
    return True


def error_of(messages: list[Message]) -> str:
    (error,) = (m["content"]["ename"] for m in messages if m["msg_type"] == "error")
    return error


def pid_of(peer: Peer) -> int:
    return int(peer.text("import os; os.getpid()"))


@pytest.mark.parametrize(
    "code",
    ["print('go', flush=True)\nwhile True: pass", "!echo go; sleep 60"],
)
def test_interrupt(peer: Peer, code: str) -> None:
    peer.run("kept = 1")
    msg_id = peer.client.execute(code)
    peer.wait_for("stream")
    peer.manager.interrupt_kernel()
    assert error_of(peer.until_idle(msg_id)) == "KeyboardInterrupt"
    assert peer.text("kept") == "1"


def test_interrupt_by_signal_to_the_group(peer: Peer) -> None:
    msg_id = peer.client.execute("print('go', flush=True)\nwhile True: pass")
    peer.wait_for("stream")
    os.killpg(peer.manager.provisioner.pgid, signal.SIGINT)
    assert error_of(peer.until_idle(msg_id)) == "KeyboardInterrupt"


def test_control_is_answered_while_a_cell_runs(peer: Peer) -> None:
    msg_id = peer.client.execute("print('go', flush=True)\nwhile True: pass")
    peer.wait_for("stream")
    request = peer.client.session.msg("kernel_info_request", {})
    peer.client.control_channel.send(request)
    reply = peer.client.get_control_msg(timeout=DEADLINE)
    assert reply["content"]["implementation"] == "pandastack"
    assert reply["parent_header"]["msg_id"] == request["header"]["msg_id"]
    assert peer.client.is_alive()
    peer.manager.interrupt_kernel()
    peer.until_idle(msg_id)


def test_messages_have_their_requests_whole_header(peer: Peer) -> None:
    messages = peer.run("print(1)")
    assert {m["parent_header"]["session"] for m in messages} == {
        peer.client.session.session
    }
    assert len({m["header"]["session"] for m in messages}) == 1


def test_shutdown_ends_a_busy_kernel_and_lets_it_clean_up(
    peer: Peer, tmp_path: Path
) -> None:
    peer.run("import atexit; atexit.register(lambda: open('bye', 'w').close())")
    pid = pid_of(peer)
    peer.client.execute("print('go', flush=True)\nwhile True: pass")
    peer.wait_for("stream")
    peer.manager.shutdown_kernel()
    assert gone(pid)
    assert (tmp_path / "bye").exists()


def test_a_front_that_is_killed_takes_its_kernel_along(peer: Peer) -> None:
    pid = pid_of(peer)
    peer.client.execute("while True: pass")
    os.kill(peer.manager.provisioner.pid, signal.SIGKILL)
    eventually(lambda: gone(pid))


@pytest.mark.parametrize(
    ("code", "status"),
    [("import os; os._exit(7)", 7), ("import os; os.kill(os.getpid(), 9)", -9)],
)
def test_it_ends_as_its_kernel_ended(peer: Peer, code: str, status: int) -> None:
    process = peer.manager.provisioner.process
    peer.client.execute(code)
    assert process.wait(DEADLINE) == status


def test_a_stranger_without_the_key_is_not_heard(peer: Peer) -> None:
    session = peer.client.session.clone()
    session.key = b"guessed"
    stranger = session.msg("execute_request", {"code": "intruder = 1", "silent": False})
    session.send(peer.client.shell_channel.socket, stranger)
    peer.client.shell_channel.socket.send_multipart([b"no message"])
    assert peer.text("'intruder' in globals()") == "False"


def test_a_request_that_no_kernel_takes_is_refused(peer: Peer) -> None:
    reply = peer.ask("execute_request", {"code": "#" * (64 << 20), "silent": True})
    assert (reply["status"], reply["ename"]) == ("error", "MessageTooLarge")
    assert peer.text("1 + 1") == "2"


def test_widgets_both_ways(peer: Peer) -> None:
    opened = peer.run(
        "import ipywidgets as w; s = w.IntSlider(3); i = w.Image(value=b'abc')"
    )
    binary = [m for m in opened if m["msg_type"] == "comm_open" and m["buffers"]]
    assert [bytes(b) for b in binary[0]["buffers"]] == [b"abc"]
    peer.run("s.observe(lambda change: print('now', change.new), 'value')")
    comm_id = peer.text("s.comm.comm_id").strip("'")
    data = {"method": "update", "state": {"value": 8}, "buffer_paths": []}
    sent = peer.send("comm_msg", {"comm_id": comm_id, "data": data})
    assert [m["content"]["text"] for m in sent if m["msg_type"] == "stream"] == [
        "now 8\n"
    ]
    assert peer.text("s.value") == "8"
    known = peer.ask("comm_info_request", {"target_name": "jupyter.widget"})
    assert comm_id in known["comms"]
    unknown = {"comm_id": "c1", "target_name": "nobody", "data": {}}
    sent = peer.send("comm_open", unknown)
    assert [m["content"]["comm_id"] for m in sent if m["msg_type"] == "comm_close"] == [
        "c1"
    ]


def test_modules_of_the_working_directory(tmp_path: Path) -> None:
    """The standard library's and our own imports are not taken from there."""
    for name in ("wave", "calendar", "argparse", "zmq"):
        (tmp_path / f"{name}.py").write_text("mine = True\n")
    peer = Peer(OURS, str(tmp_path))
    try:
        peer.run("import calendar, wave, argparse, zmq")
        code = "[hasattr(m, 'mine') for m in (calendar, wave, argparse)]"
        assert peer.text(code) == "[False, False, False]"
    finally:
        peer.close()


def test_a_kernel_without_front_has_no_zeromq(kernel) -> None:  # type: ignore[no-untyped-def]
    assert kernel.run("import sys; 'zmq' in sys.modules").text == "False"
