# Generated from _async/forks.py by generate_sync.py. Do not edit.
"""Copies of a sandbox that go on from one moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, List, Optional, TypeVar

from .. import _wire
from .._fields import Fields
from .._models import SandboxInfo
from .._snapshots import Promotion, promotion
from ._io import Cancel
from .room import START_LIMIT, ask
from .transport import Transport

if TYPE_CHECKING:
    from .client import Client

F = TypeVar("F", bound="Forks")


class Forks(SandboxInfo):
    """Copies a sandbox."""

    _client: Client
    _transport: Transport
    _path: str

    def fork(
        self: F,
        metadata: Optional[Mapping[str, str]] = None,
        *,
        timeout: Optional[float] = None,
        cancel: Optional[Cancel] = None,
    ) -> F:
        """Makes one copy that goes on from this moment: variables, processes and files.

        What must differ differs: its id, host name and random numbers. This sandbox goes on.
        Where the server has no room now, it is asked again, as `create` does.

        Args:
            metadata: In addition to this sandbox's.
            timeout: Seconds for all of it.
            cancel: An event that ends the wait for room.

        Raises:
            CapacityError: There was no room until the end of the wait.
            ConflictError: This sandbox is being paused, hibernated or copied by another call.
            CreateCancelled: `cancel` was set.
        """
        body = _wire.sparse(metadata=dict(metadata or {})) or None
        answer = ask(self._client, f"{self._path}/fork", body, _wire.limit(timeout, None), cancel)
        return Fields(answer, "a copy").item("sandbox", self._copy)

    def fork_tree(
        self: F,
        count: int,
        metadata: Optional[Mapping[str, str]] = None,
        *,
        timeout: Optional[float] = None,
        cancel: Optional[Cancel] = None,
    ) -> List[F]:
        """Makes 1 to 16 copies that go on from one and the same moment; all of them or none.

        Their `fork_tree_id` is the same. Arguments and errors are those of `fork`.
        """
        body = {"count": count, **_wire.sparse(metadata=dict(metadata or {}))}
        answer = ask(self._client, f"{self._path}/fork-tree", body, _wire.limit(timeout, None), cancel)
        return Fields(answer, "the copies").items("children", self._copy)

    def promote(self, *, cleanup_siblings: bool = False, tree_id: Optional[str] = None) -> Promotion:
        """Makes this copy the one that stays.

        Args:
            cleanup_siblings: Delete the other copies of the tree.
            tree_id: Of which tree; by default the one that made this copy.
        """
        body = {"cleanup_siblings": cleanup_siblings, **_wire.sparse(tree_id=tree_id)}
        path = f"{self._path}/promote"
        return promotion(self._transport.json("POST", path, body=body, read_timeout=START_LIMIT))

    def _copy(self: F, data: object) -> F:
        return self.from_dict(data, self._client)

    @classmethod
    def from_dict(cls: type[F], data: object, client: Client, persistent: bool = False) -> F:
        """Makes the object from the server's JSON."""
        raise NotImplementedError
