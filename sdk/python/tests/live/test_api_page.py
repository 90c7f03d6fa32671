"""Runs the examples of docs/api.md, in order, in one shell."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from pandastack import _discovery

PAGE = Path(__file__).parents[4] / "docs/api.md"
BLOCK = re.compile(r"^```(sh|output)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "----- next -----"


def examples() -> list[tuple[str, str]]:
    """The commands of each example and what they are to print."""
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    pairs = list(zip(blocks[::2], blocks[1::2]))
    assert len(blocks) == 2 * len(pairs) > 0
    assert all((sh, out) == ("sh", "output") for (sh, _), (out, _) in pairs), "each example has its output"
    return [(commands, output) for (_, commands), (_, output) in pairs]


def expected(output: str) -> re.Pattern[str]:
    return re.compile(".*?".join(map(re.escape, output.strip().split("…"))), re.DOTALL)


def test_examples(server: _discovery.Endpoint) -> None:
    script = "set -euo pipefail\n" + f"echo '{MARK}'\n".join(commands for commands, _ in examples())
    environment = {**os.environ, "PANDASTACK_API": server.url, "PANDASTACK_API_KEY": server.key}
    ran = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr + ran.stdout
    printed = ran.stdout.split(MARK + "\n")
    assert len(printed) == len(examples())
    for (commands, output), got in zip(examples(), printed):
        assert expected(output).fullmatch(got.strip()), f"{commands}\nprinted\n{got}\nnot\n{output}"
