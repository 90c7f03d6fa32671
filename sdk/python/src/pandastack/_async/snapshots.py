"""Snapshots: saved sandboxes."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Optional

from .. import _wire
from .._fields import Fields
from .._snapshots import Snapshot, snapshot

if TYPE_CHECKING:
    from .client import AsyncClient


class AsyncSnapshots:
    """``client.snapshots``: what `AsyncSandbox.snapshot` has saved."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def list(self, *, sandbox_id: Optional[str] = None) -> List[Snapshot]:
        """All snapshots of the server, or those of one sandbox, which may be gone."""
        params = _wire.sparse(sandbox_id=sandbox_id)
        answer = await self._client._transport.json("GET", "/snapshots", params=params)
        return Fields(answer, "the list of snapshots").items("items", snapshot)

    async def get(self, snapshot_id: str) -> Snapshot:
        """The snapshot with this id or name.

        Raises:
            NotFoundError: There is none.
        """
        return snapshot(await self._client._transport.json("GET", self._path(snapshot_id)))

    async def delete(self, snapshot_id: str) -> None:
        """Deletes a snapshot, by its id or name. Sandboxes made from it go on.

        Raises:
            NotFoundError: There is none.
        """
        await self._client._transport.json("DELETE", self._path(snapshot_id), read_timeout=120.0)

    def _path(self, snapshot_id: str) -> str:
        return f"/snapshots/{_wire.segment(snapshot_id)}"
