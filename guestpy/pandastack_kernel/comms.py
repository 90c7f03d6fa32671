"""Comms (ipywidgets) over the kernel's messages."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from typing import Any

import comm
from comm.base_comm import BaseComm, CommManager

from .jsonsafe import plain

Post = Callable[..., None]


def install(post: Post) -> CommManager:
    """Make every comm that is created from now on talk through post."""

    class KernelComm(BaseComm):
        def publish_msg(
            self,
            msg_type: str,
            data: dict[str, Any] | None = None,
            metadata: dict[str, Any] | None = None,
            buffers: list[bytes] | None = None,
            **keys: Any,
        ) -> None:
            content = {"comm_id": self.comm_id, "data": plain(data or {}), **keys}
            post(msg_type, content, metadata=metadata, buffers=buffers)

    manager = CommManager()
    comm.create_comm = KernelComm
    comm.get_comm_manager = lambda: manager
    return manager


def info(manager: CommManager, target: str | None) -> dict[str, Any]:
    """The content of comm_info_reply."""
    comms = {
        comm_id: {"target_name": one.target_name}
        for comm_id, one in manager.comms.items()
        if target in (None, "", one.target_name)
    }
    return {"status": "ok", "comms": comms}


def handle(manager: CommManager, msg: dict[str, Any]) -> None:
    """Deliver a comm_open, comm_msg or comm_close of the client."""
    msg["buffers"] = [b64decode(b) for b in msg.get("buffers") or []]
    getattr(manager, msg["header"]["msg_type"])(None, None, msg)
