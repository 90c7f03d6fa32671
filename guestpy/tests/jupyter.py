"""Our kernel and ipykernel as Jupyter's own client sees them."""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Iterator
from typing import Any

import pytest
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

from .client import DEADLINE, PACKAGE_ROOT

OURS = "pandastack"
THEIRS = "python3"

Message = dict[str, Any]


@pytest.fixture(scope="module")
def kernelspecs() -> Iterator[None]:
    """Let Jupyter's client find our kernelspec and package in this checkout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(PACKAGE_ROOT / "share" / "jupyter"))
        patch.setenv("PYTHONPATH", str(PACKAGE_ROOT))
        yield


class Peer:
    """A running kernel and a client of it."""

    def __init__(self, name: str, folder: str) -> None:
        self.manager: KernelManager
        self.client: BlockingKernelClient
        self.folder = folder
        self.manager, self.client = start_new_kernel(kernel_name=name, cwd=folder)

    def run(
        self, code: str, answers: tuple[str, ...] = (), **options: Any
    ) -> list[Message]:
        """The messages one cell gives, then its reply, then what it asked for."""
        msg_id = self.client.execute(code, **options)
        waiting = list(answers)
        messages: list[Message] = []
        asked: list[Message] = []
        while True:
            self._answer(waiting, asked)
            message = self._iopub()
            if message is None:
                continue
            if message["parent_header"].get("msg_id") != msg_id:
                continue
            messages.append(message)
            if _is_idle(message):
                break
        return [*messages, self._reply(msg_id), *asked]

    def ask(self, msg_type: str, content: Message) -> Message:
        """The content of the reply to any other request."""
        message = self.client.session.msg(msg_type, content)
        self.client.shell_channel.send(message)
        return self._reply(message["header"]["msg_id"])["content"]

    def send(self, msg_type: str, content: Message) -> list[Message]:
        """What a message without reply gives."""
        message = self.client.session.msg(msg_type, content)
        self.client.shell_channel.send(message)
        messages = []
        while not messages or not _is_idle(messages[-1]):
            seen = self.client.get_iopub_msg(timeout=DEADLINE)
            if seen["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                messages.append(seen)
        return messages

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel()

    def _iopub(self) -> Message | None:
        with contextlib.suppress(queue.Empty):
            return self.client.get_iopub_msg(timeout=0.05)
        return None

    def _answer(self, waiting: list[str], asked: list[Message]) -> None:
        with contextlib.suppress(queue.Empty):
            asked.append(self.client.get_stdin_msg(timeout=0))
            self.client.input(waiting.pop(0))

    def _reply(self, msg_id: str) -> Message:
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            message = self.client.get_shell_msg(timeout=DEADLINE)
            if message["parent_header"].get("msg_id") == msg_id:
                return message
        raise TimeoutError("no reply")


def _is_idle(message: Message) -> bool:
    return (
        message["msg_type"] == "status"
        and message["content"]["execution_state"] == "idle"
    )
