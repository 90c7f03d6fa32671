"""Child processes of `!` and %%bash: inherited descriptors, exact order."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
from typing import Any

from .streams import OutStream

_GRACE = 0.5  # seconds a child has to end after an interrupt


def enter(cwd: str) -> None:
    """Make cwd the working directory, and the place where processes that
    multiprocessing spawns look for what is imported from there."""
    os.chdir(cwd)
    if module := sys.modules.get("multiprocessing.process"):
        module.ORIGINAL_DIR = os.getcwd()  # type: ignore[attr-defined]


def run(args: Any, text: bytes | None = None, **options: Any) -> int:
    """Run a child with the session's output and return its exit code.

    Where user code redirected sys.stdout (%%capture, redirect_stdout) the
    output goes there, once the child has ended.
    """
    stdin = subprocess.DEVNULL if text is None else subprocess.PIPE
    live = isinstance(sys.stdout, OutStream) and isinstance(sys.stderr, OutStream)
    pipe = None if live else subprocess.PIPE
    with subprocess.Popen(
        args, stdin=stdin, stdout=pipe, stderr=pipe, **options
    ) as child:
        try:
            out, err = child.communicate(text)
        except KeyboardInterrupt:
            _stop(child)
            raise
    if not live:
        sys.stdout.write(out.decode("utf-8", "replace"))
        sys.stderr.write(err.decode("utf-8", "replace"))
    importlib.invalidate_caches()  # it may have been pip
    return child.returncode


def _stop(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE)
        return
    child.kill()
