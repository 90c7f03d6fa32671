"""The processes under measurement: a server with its own data directory, and the bare mechanism."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pandastack import Client

START_LIMIT = 60.0
STOP_LIMIT = 90.0
SAMPLE_PATIENCE = 10.0
# What a template is made of; with links to these a data directory has it ready.
BAKED = ("images", "warm", "boot", "templates")


@contextlib.contextmanager
def scratch_beside(data: Path) -> Iterator[Path]:
    """A new folder on the same file system."""
    data.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{data.name}-bench-", dir=data.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def link_template(data: Path, to: Path) -> None:
    """Gives `to` the templates of `data`. Their files never change, so links will do."""
    for name in BAKED:
        shutil.copytree(data / name, to / name, copy_function=os.link)


def build_template(program: str, data: Path) -> None:
    """Makes the template ready in `data`, or raises with the last lines of what was said."""
    done = subprocess.run(
        [program, "template", "build", "code-interpreter", "--data-dir", str(data)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError("template build failed:\n" + "\n".join(done.stdout.splitlines()[-15:]))


@contextlib.contextmanager
def serving(program: str, data: Path, *flags: str) -> Iterator[Client]:
    """A server on `data`, without a pool unless `flags` say so, and its client. At the end both are gone."""
    log = data / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                program,
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--data-dir",
                str(data),
                *(flags or ("--pool-max", "0")),
            ],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,  # an interrupt at the terminal is for this script
        )
    try:
        with contextlib.closing(_connect(process, data, log)) as client:
            try:
                yield client
            finally:
                for sandbox in client.sandboxes.list():
                    sandbox.kill()
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _connect(process: subprocess.Popen[bytes], data: Path, log: Path) -> Client:
    until = time.monotonic() + START_LIMIT
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(FileNotFoundError, ValueError):
            about = json.loads((data / "server.json").read_text(encoding="utf-8"))
            key = Path(about["key_file"]).read_text(encoding="utf-8").strip()
            return Client(about["url"], key, timeout=120.0)
        time.sleep(0.02)
    raise RuntimeError("the server did not start:\n" + log.read_text(encoding="utf-8")[-2000:])


class Bare:
    """The program of main.go: samples without server, shim and jail."""

    def __init__(self, program: str, data: Path) -> None:
        self._process = subprocess.Popen(
            [program, "--data-dir", str(data)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def ask(self, what: str) -> dict[str, Any]:
        """Takes one sample."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the program for bare samples has ended")
        answer: dict[str, Any] = json.loads(line)
        if answer.get("error"):
            raise RuntimeError(answer["error"])
        return answer

    def ms(self, what: str) -> float:
        """Takes one sample and gives its milliseconds."""
        return float(self.ask(what)["ms"])

    def close(self) -> None:
        """Ends its machines and itself."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(SAMPLE_PATIENCE)
        except subprocess.TimeoutExpired:  # in the middle of a sample
            self._process.terminate()
            self._process.wait(STOP_LIMIT)
        self._process.stdout.close()
