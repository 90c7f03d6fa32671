"""Jupyter's messages as ZeroMQ carries them: identities, signature, four JSON parts."""

from __future__ import annotations

import base64
import datetime
import getpass
import hashlib
import hmac
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import jsonsafe

PROTOCOL_VERSION = "5.4"

_DELIMITER = b"<IDS|MSG>"
_PARTS = 4  # header, parent_header, metadata, content

Message = dict[str, Any]


class WireError(Exception):
    """Not a message, or not one of a client that has the key."""


@dataclass(frozen=True)
class Wire:
    """Packs and unpacks the messages of one connection file."""

    key: bytes
    scheme: str = "hmac-sha256"
    session: str = ""

    @classmethod
    def of(cls, connection: dict[str, Any]) -> Wire:
        scheme = connection.get("signature_scheme") or cls.scheme
        if scheme.removeprefix("hmac-") not in hashlib.algorithms_available:
            raise WireError(f"unknown signature scheme {scheme!r}")
        return cls(connection.get("key", "").encode(), scheme, uuid.uuid4().hex)

    def header(self, msg_type: str) -> Message:
        return {
            "msg_id": f"{self.session}_{uuid.uuid4().hex}",
            "msg_type": msg_type,
            "username": _username(),
            "session": self.session,
            "date": datetime.datetime.now(datetime.UTC).isoformat(),
            "version": PROTOCOL_VERSION,
        }

    def pack(self, identities: Sequence[bytes], message: Message) -> list[bytes]:
        parts = [
            jsonsafe.dumps(message[name])
            for name in ("header", "parent_header", "metadata", "content")
        ]
        buffers = [base64.b64decode(b) for b in message.get("buffers") or ()]
        return [*identities, _DELIMITER, self._sign(parts), *parts, *buffers]

    def unpack(self, frames: Sequence[bytes]) -> tuple[list[bytes], Message]:
        """The sender's identities and its message, buffers as base64."""
        try:
            at = frames.index(_DELIMITER)
            signature, *rest = frames[at + 1 :]
            parts, buffers = rest[:_PARTS], rest[_PARTS:]
            if self.key and not hmac.compare_digest(signature, self._sign(parts)):
                raise WireError("wrong signature")
            header, parent, metadata, content = (dict(json.loads(p)) for p in parts)
            for name in ("msg_id", "msg_type"):
                header[name] = str(header[name])
            message = {
                "header": header,
                "parent_header": parent,
                "metadata": metadata,
                "content": content,
                "buffers": [base64.b64encode(b).decode("ascii") for b in buffers],
            }
        except (ValueError, TypeError, KeyError) as err:
            raise WireError(f"not a message: {err}") from err
        return list(frames[:at]), message

    def _sign(self, parts: Sequence[bytes]) -> bytes:
        if not self.key:
            return b""
        mac = hmac.new(self.key, digestmod=self.scheme.removeprefix("hmac-"))
        for part in parts:
            mac.update(part)
        return mac.hexdigest().encode()


def _username() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "kernel"
