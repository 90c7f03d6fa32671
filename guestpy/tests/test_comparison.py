"""The same cells on ipykernel and on ours, message by message.

What differs is what docs/kernel.md says that it differs in, no more and no less.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .client import PACKAGE_ROOT
from .comparison import CELLS, REQUESTS, clean, normal
from .jupyter import OURS, THEIRS, Peer

_PAGE = PACKAGE_ROOT.parent / "docs" / "kernel.md"
_ROW = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)

pytestmark = pytest.mark.usefixtures("kernelspecs")

Peers = dict[str, Peer]


@pytest.fixture(scope="module")
def peers(
    kernelspecs: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Peers]:
    both = {n: Peer(n, str(tmp_path_factory.mktemp(n))) for n in (THEIRS, OURS)}
    yield both
    for one in both.values():
        one.close()


def _documented() -> set[str]:
    return set(_ROW.findall(_PAGE.read_text(encoding="utf-8")))


def _check(name: str, theirs: Any, ours: Any) -> None:
    if name in _documented():
        assert theirs != ours, f"{name!r} does not differ any more: see {_PAGE.name}"
    else:
        shown = [json.dumps(v, indent=1, sort_keys=True) for v in (theirs, ours)]
        assert shown[0] == shown[1]


@pytest.mark.parametrize("name", CELLS)
def test_cells(peers: Peers, name: str) -> None:
    seen = {}
    for peer_name, peer in peers.items():
        cells = [(c,) if isinstance(c, str) else c for c in CELLS[name]]
        runs = [
            peer.run(c[0], c[1:], allow_stdin=isinstance(o, tuple))
            for c, o in zip(cells, CELLS[name], strict=True)
        ]
        seen[peer_name] = [normal(messages, peer.folder) for messages in runs]
    _check(name, seen[THEIRS], seen[OURS])


@pytest.mark.parametrize("name", REQUESTS)
def test_requests(peers: Peers, name: str) -> None:
    seen = {
        peer_name: [clean(peer.ask(*r), peer.folder) for r in REQUESTS[name]]
        for peer_name, peer in peers.items()
    }
    _check(name, seen[THEIRS], seen[OURS])


def test_every_difference_is_compared() -> None:
    assert _documented() <= CELLS.keys() | REQUESTS.keys()
