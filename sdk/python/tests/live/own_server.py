"""A server of a test's own, which may be killed and started again at the same address."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Optional

_ROOT = Path(__file__).parents[4]
_PARTS = ("images", "warm", "boot", "templates", "jail")
# Seconds that a start may take on a busy machine.
_START = 60.0


class OwnServer:
    """Runs on a data directory that is linked from a built template."""

    def __init__(self) -> None:
        seed = Path(os.environ.get("PANDASTACK_TEST_DATA", "/var/lib/pandastack"))
        self.dir = Path(tempfile.mkdtemp(prefix="test-", dir=seed / "tmp"))
        for part in _PARTS:
            if (seed / part).exists():
                subprocess.run(["cp", "-al", seed / part, self.dir], check=True)
        self._listen = "127.0.0.1:0"
        self._process: Optional[subprocess.Popen[bytes]] = None
        self.start()

    def start(self) -> None:
        """Starts it, at the address it had before."""
        log = self.dir / "server.log"
        command = [_ROOT / "bin/pandastack", "serve", "--data-dir", self.dir, "--listen", self._listen]
        with log.open("wb") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out)
        deadline = time.monotonic() + _START
        while not (found := re.search(r"^listening on +(http://(\S+))$", log.read_text(), re.MULTILINE)):
            assert self._process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, "the server does not listen"
            time.sleep(0.05)
        self.url, self._listen = found[1], found[2]
        self.key = (self.dir / "key").read_text().strip()

    def kill(self) -> None:
        """Ends it as kill -9 does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def peak_memory(self) -> int:
        """The most bytes of memory it has had."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) << 10

    def close(self) -> None:
        """Ends it with its sandboxes."""
        subprocess.run(
            [_ROOT / "bin/pandastack", "down", "--data-dir", self.dir], check=True, stdout=subprocess.DEVNULL
        )
        assert self._process is not None
        self._process.wait()
        shutil.rmtree(self.dir)
