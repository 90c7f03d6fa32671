"""Runs in a sandbox, in a process of its own: other ways to run the same cell.

It reads lines "ipykernel N", "ipython N" or "spawn N" and answers each with a JSON list
of N durations in milliseconds.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import time
from collections.abc import Callable

from IPython.core.interactiveshell import InteractiveShell
from jupyter_client.manager import start_new_kernel

LIMIT = 60.0


class Peers:
    """An ipykernel and an IPython shell of this process."""

    def __init__(self) -> None:
        self.manager, self.client = start_new_kernel(kernel_name="python3")
        self.shell = InteractiveShell.instance()

    def ipykernel(self) -> None:
        """One cell over ZeroMQ, until its result is there, it has replied and is idle."""
        wanted = self.client.execute("1+1")
        result = None
        while True:
            message = self.client.get_iopub_msg(timeout=LIMIT)
            if message["parent_header"].get("msg_id") != wanted:
                continue
            if message["msg_type"] == "execute_result":
                result = message["content"]["data"]["text/plain"]
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
        self.client.get_shell_msg(timeout=LIMIT)
        if result != "2":
            raise RuntimeError(f"1+1 gave {result}")

    def ipython(self) -> None:
        """One cell in this process."""
        with contextlib.redirect_stdout(io.StringIO()):
            result = self.shell.run_cell("1+1", store_history=True).result
        if result != 2:
            raise RuntimeError(f"1+1 gave {result}")

    def spawn(self) -> None:
        """One process."""
        subprocess.run(["true"], check=True)


def milliseconds(work: Callable[[], None]) -> float:
    """How long `work` takes."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def main() -> None:
    peers = Peers()
    try:
        print("ready", flush=True)
        for line in sys.stdin:
            name, count = line.split()
            work = {
                "ipykernel": peers.ipykernel,
                "ipython": peers.ipython,
                "spawn": peers.spawn,
            }[name]
            print(json.dumps([milliseconds(work) for _ in range(int(count))]), flush=True)
    finally:
        peers.client.stop_channels()
        peers.manager.shutdown_kernel(now=True)


if __name__ == "__main__":
    main()
