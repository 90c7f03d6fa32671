"""From a process that has a shell to a kernel that runs in it."""

from __future__ import annotations

import io
import os
import socket
import sys
import time
from collections.abc import Mapping
from typing import NoReturn

from .kernel import Kernel
from .shell import ZMQInteractiveShell
from .streams import OutStream


def hide_package() -> None:
    """Session code must see neither our import path nor our arguments.

    What is imported stays imported; submodules are found by __path__."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    # With -m the first entry is the directory we were started in.
    sys.path[0] = ""
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    others = [e for e in entries if e and os.path.abspath(e) != root]
    if others:
        os.environ["PYTHONPATH"] = os.pathsep.join(others)
    else:
        os.environ.pop("PYTHONPATH", None)
    if len(others) < len(entries) and root in sys.path:
        sys.path.remove(root)
    sys.argv = [""]


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
        os.chdir(cwd or os.getcwd())
        shell.history_manager.dir_hist[:] = [os.getcwd()]
    except OSError as err:
        kernel.log(f"chdir: {err}")
    kernel.install()
    kernel.run()
