# Generated from _async/lifecycle.py by generate_sync.py. Do not edit.
"""When a sandbox ends, its log, and what is not offered yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Dict, Optional, Tuple

from .. import _models, _wire
from .._fields import Fields
from .._models import Lifecycle, SandboxInfo
from ..exceptions import NotFoundError
from .transport import Transport

# Seconds that writing a whole memory to disk may take.
_SAVING = 300.0


class Life(SandboxInfo):
    """The life of a sandbox.

    Methods that a server does not offer raise `NotOfferedError`.
    """

    _transport: Transport
    _path: str

    def lifecycle(self) -> Lifecycle:
        """When it ends by itself, and for how long nobody has used it."""
        return self._lived(self._transport.json("GET", f"{self._path}/lifecycle"))

    def set_ttl(self, seconds: int) -> Lifecycle:
        """Lets it live for so many seconds from now; 0 until it is deleted."""
        return self._change({"ttl_seconds": seconds})

    def set_persistent(self, persistent: bool) -> Lifecycle:
        """Whether ``with`` leaves it alive. A time to live ends it all the same."""
        return self._change({"persistent": persistent})

    def logs(self, stream: str = "both", follow: bool = False) -> Iterator[str]:
        """The lines that its machine has printed on the serial console.

        Args:
            stream: ``agent`` (also ``stderr``) for what PandaStack's agent in the sandbox
                wrote; ``console``, ``both`` or ``stdout`` for all of it, the kernel's lines too.
            follow: Go on with new lines as they come, until the machine ends.

        Raises:
            ConnectionError: The connection broke.
        """
        path = f"{self._path}/logs"
        if not follow:
            text = self._transport.get_bytes(path, {"stream": stream})
            for line in text.decode("utf-8", "replace").split("\n"):
                if line:
                    yield line
            return
        params = {"stream": stream, "follow": "true"}
        with self._transport.events("GET", path, params=params) as events:
            for event in events:
                if event.name == "error":
                    raise _wire.error_in_stream(event.data)
                yield Fields(event.data, "a line of the log").text("line")

    def pause(self) -> None:
        """Halts it; `resume` lets it go on."""
        self._act("pause")

    def resume(self) -> None:
        """Lets a paused sandbox go on."""
        self._act("resume")

    def hibernate(self) -> None:
        """Moves its whole state to disk and frees its memory."""
        self._act("hibernate")

    def wake(self) -> None:
        """Brings a hibernated sandbox back as it was."""
        self._act("wake")

    def snapshot(self) -> str:
        """Saves its memory and disk; gives the snapshot's id."""
        return Fields(self._act("snapshots"), "a snapshot").text("id")

    def preview_url(self, port: int) -> str:
        """The address under which one of its ports is reached from outside."""
        if not 1 <= port <= 65535:
            raise ValueError(f"a port is 1 to 65535, not {port!r}")
        urls = self.preview_urls()
        if port not in urls:
            raise NotFoundError(f"Nothing listens on port {port} of sandbox {self.id}.")
        return urls[port]

    def preview_urls(self) -> Dict[int, str]:
        """The addresses of all ports on which something listens."""
        answer = self._transport.json("GET", f"{self._path}/ports")
        return dict(Fields(answer, "the ports").items("ports", _port))

    def _act(self, verb: str, body: Optional[Mapping[str, Any]] = None) -> Any:
        path = f"{self._path}/{verb}"
        return self._transport.json("POST", path, body=body, read_timeout=_SAVING)

    def _change(self, body: Mapping[str, Any]) -> Lifecycle:
        return self._lived(self._transport.json("PATCH", f"{self._path}/lifecycle", body=body))

    def _lived(self, answer: object) -> Lifecycle:
        life = _models.lifecycle(answer)
        self.ttl_seconds, self.expires_at = life["ttl_seconds"], life["expires_at"]
        self.persistent = life["persistent"]
        return life


def _port(data: object) -> Tuple[int, str]:
    fields = Fields(data, "a port")
    return fields.integer("port"), fields.text("url")
