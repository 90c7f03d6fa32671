"""Snapshots and what comes of copies."""

from __future__ import annotations

from typing import Any, TypedDict

from ._fields import Fields


class Snapshot(TypedDict):
    """A saved state of a sandbox: memory with all that runs, and disk.

    name: Another name of it, or "".
    sandbox_id: What it was taken of, which may be gone.
    created_at: RFC 3339, UTC.
    memory_mb: In units of 2**20 bytes.
    metadata: The sandbox's, and what was given with the snapshot.
    memory_bytes, disk_bytes: What it takes on the server's disk.
    pause_ms: For how many milliseconds the sandbox stood still.
    total_ms: Milliseconds until all was on disk.
    """

    id: str
    name: str
    sandbox_id: str
    template: str
    created_at: str
    cpu: int
    memory_mb: int
    metadata: dict[str, str]
    memory_bytes: int
    disk_bytes: int
    pause_ms: float
    total_ms: float


def snapshot(data: object) -> Snapshot:
    """Reads the server's JSON."""
    fields = Fields(data, "a snapshot")
    return {
        "id": fields.text("id"),
        "name": fields.text("name", ""),
        "sandbox_id": fields.text("sandbox_id", ""),
        "template": fields.text("template", ""),
        "created_at": fields.text("created_at", ""),
        "cpu": fields.integer("cpu", 0),
        "memory_mb": fields.integer("memory_mb", 0),
        "metadata": fields.mapping("metadata"),
        "memory_bytes": fields.integer("memory_bytes", 0),
        "disk_bytes": fields.integer("disk_bytes", 0),
        "pause_ms": fields.number("pause_ms", 0),
        "total_ms": fields.number("total_ms", 0),
    }


class SnapshotId(str):
    """The id of a snapshot that was just taken; `snapshot` says what that gave."""

    snapshot: Snapshot

    @classmethod
    def of(cls, taken: Snapshot) -> SnapshotId:
        """The id with its snapshot."""
        made = cls(taken["id"])
        made.snapshot = taken
        return made


class Promotion(TypedDict):
    """What came of keeping one copy.

    winner: Id of the sandbox that stays.
    deleted: Ids of copies that are gone.
    failures: Copies that could not be deleted, and why.
    """

    winner: str
    tree_id: str
    deleted: list[str]
    failures: dict[str, str]


def promotion(data: object) -> Promotion:
    """Reads the server's JSON."""
    fields = Fields(data, "a promotion")
    return {
        "winner": fields.text("winner"),
        "tree_id": fields.text("tree_id", ""),
        "deleted": fields.items("deleted", str),
        "failures": _texts(fields.mapping("failures")),
    }


def _texts(values: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}
