"""Creates, uses and deletes sandboxes from several clients at once; looks for errors and growth.

Usage: soak.py [SECONDS] [CLIENTS]

PANDASTACK_API and PANDASTACK_API_KEY name the server, PANDASTACK_SERVER_PID its process. It ends with 1 if
a call failed, a result was wrong, or the server's memory or descriptors grew from the first quarter on.
"""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from pathlib import Path

from pandastack import Client

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 300
CLIENTS = int(sys.argv[2]) if len(sys.argv) > 2 else 8
SERVER = os.environ["PANDASTACK_SERVER_PID"]


class Tally:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.seconds: list[float] = []
        self.kinds: dict[str, int] = {}
        self.errors: list[str] = []

    def done(self, seconds: float, kind: str) -> None:
        with self.lock:
            self.seconds.append(seconds)
            self.kinds[kind] = self.kinds.get(kind, 0) + 1

    def failed(self, error: str) -> None:
        with self.lock:
            self.errors.append(error)


def usage() -> dict[str, int]:
    status = Path(f"/proc/{SERVER}/status").read_text()
    rss = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))
    fds = len(list(Path(f"/proc/{SERVER}/fd").iterdir()))
    return {"RssAnon kB": rss, "descriptors": fds}


def client(number: int, until: float, tally: Tally) -> None:
    with Client() as api:
        turn = 0
        while time.monotonic() < until:
            turn += 1
            began = time.monotonic()
            try:
                sandbox = api.sandboxes.create(metadata={"soak": f"{number}-{turn}"})
                try:
                    got = sandbox.exec(f"echo {number}-{turn}").stdout
                    if got != f"{number}-{turn}\n":
                        raise AssertionError(f"exec printed {got!r}")
                finally:
                    sandbox.kill()
                tally.done(time.monotonic() - began, sandbox.start.kind)
            except Exception as err:
                tally.failed(f"client {number}, turn {turn}: {type(err).__name__}: {err}")


def main() -> int:
    tally = Tally()
    begin = time.monotonic()
    threads = [threading.Thread(target=client, args=(n, begin + SECONDS, tally)) for n in range(CLIENTS)]
    for thread in threads:
        thread.start()
    time.sleep(SECONDS / 4)
    early = usage()
    for thread in threads:
        thread.join()
    late = usage()
    took = time.monotonic() - begin
    print(f"{len(tally.seconds)} sandboxes in {took:.0f} s by {CLIENTS} clients: {tally.kinds}")
    if tally.seconds:
        middle, most = statistics.median(tally.seconds), max(tally.seconds)
        print(f"one took {middle:.2f} s at the median, {most:.2f} s at most")
    print(f"the server after a quarter of the time: {early}; at the end: {late}")
    for error in tally.errors[:10]:
        print("FAILED", error)
    grown = [k for k in early if late[k] > early[k] * 1.25 + 4096]
    for name in grown:
        print(f"GREW {name}")
    return 1 if tally.errors or grown or not tally.seconds else 0


if __name__ == "__main__":
    sys.exit(main())
