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
def kernelspecs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let Jupyter's client find our kernelspec and package in this checkout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(PACKAGE_ROOT / "share" / "jupyter"))
        patch.setenv("PYTHONPATH", str(PACKAGE_ROOT))
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
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
        asked: list[Message] = []
        messages: list[Message] = []
        while not (messages and _is_idle(messages[-1])):
            self._answer(waiting, asked)
            with contextlib.suppress(queue.Empty):
                message = self.client.get_iopub_msg(timeout=0.05)
                if message["parent_header"].get("msg_id") == msg_id:
                    messages.append(message)
        return [*messages, self._reply(msg_id), *asked]

    def text(self, code: str) -> str:
        """The value of a cell."""
        (result,) = (m for m in self.run(code) if m["msg_type"] == "execute_result")
        return result["content"]["data"]["text/plain"]

    def ask(self, msg_type: str, content: Message) -> Message:
        """The content of the reply to any other request."""
        return self._reply(self._send(msg_type, content))["content"]

    def send(self, msg_type: str, content: Message) -> list[Message]:
        """What a message without reply gives."""
        return self.until_idle(self._send(msg_type, content))

    def until_idle(self, msg_id: str) -> list[Message]:
        messages: list[Message] = []
        while not (messages and _is_idle(messages[-1])):
            message = self.client.get_iopub_msg(timeout=DEADLINE)
            if message["parent_header"].get("msg_id") == msg_id:
                messages.append(message)
        return messages

    def wait_for(self, msg_type: str) -> Message:
        while True:
            message = self.client.get_iopub_msg(timeout=DEADLINE)
            if message["msg_type"] == msg_type:
                return message

    def _send(self, msg_type: str, content: Message) -> str:
        message = self.client.session.msg(msg_type, content)
        self.client.shell_channel.send(message)
        return message["header"]["msg_id"]

    def close(self) -> None:
        self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel()

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
