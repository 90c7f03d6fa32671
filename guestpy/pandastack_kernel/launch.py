"""From a process that has a shell to a kernel that runs in it."""

from __future__ import annotations

import io
import os
import socket
import sys
import time
from collections.abc import Mapping
from typing import NoReturn

from . import processes
from .kernel import Kernel
from .shell import ZMQInteractiveShell
from .streams import OutStream


def attach_streams() -> list[OutStream]:
    """Make sys.stdout and sys.stderr those of a kernel to come."""
    streams = [OutStream(1), OutStream(2)]
    sys.stdout, sys.stderr = streams
    return streams


def run_kernel(
    sock: socket.socket,
    shell: ZMQInteractiveShell,
    streams: list[OutStream],
    cwd: str = "",
    env: Mapping[str, str] | None = None,
) -> NoReturn:
    """Be the kernel behind sock until it ends, and this process with it."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), encoding="utf-8")
    os.environ.update(env or {})
    time.tzset()
    kernel = Kernel(sock, shell, streams)
    try:
        processes.enter(cwd or os.getcwd())
        shell.history_manager.dir_hist[:] = [os.getcwd()]
    except OSError as err:
        kernel.log(f"chdir: {err}")
    kernel.install()
    kernel.run()
