"""When a sandbox ends, its log, and what is not offered yet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Dict, Optional, Tuple

from .. import _models, _wire
from .._fields import Fields
from .._models import Lifecycle, SandboxInfo
from ..exceptions import NotFoundError
from .transport import AsyncTransport

# Seconds that writing a whole memory to disk may take.
_SAVING = 300.0


class AsyncLife(SandboxInfo):
    """The life of a sandbox.

    Methods that a server does not offer raise `NotOfferedError`.
    """

    _transport: AsyncTransport
    _path: str

    async def lifecycle(self) -> Lifecycle:
        """When it ends by itself, and for how long nobody has used it."""
        return self._lived(await self._transport.json("GET", f"{self._path}/lifecycle"))

    async def set_ttl(self, seconds: int) -> Lifecycle:
        """Lets it live for so many seconds from now; 0 until it is deleted."""
        return await self._change({"ttl_seconds": seconds})

    async def set_persistent(self, persistent: bool) -> Lifecycle:
        """Whether ``async with`` leaves it alive. A time to live ends it all the same."""
        return await self._change({"persistent": persistent})

    async def logs(self, stream: str = "both", follow: bool = False) -> AsyncIterator[str]:
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
            text = await self._transport.get_bytes(path, {"stream": stream})
            for line in text.decode("utf-8", "replace").split("\n"):
                if line:
                    yield line
            return
        params = {"stream": stream, "follow": "true"}
        async with self._transport.events("GET", path, params=params) as events:
            async for event in events:
                if event.name == "error":
                    raise _wire.error_in_stream(event.data)
                yield Fields(event.data, "a line of the log").text("line")

    async def pause(self) -> None:
        """Halts it; `resume` lets it go on."""
        await self._act("pause")

    async def resume(self) -> None:
        """Lets a paused sandbox go on."""
        await self._act("resume")

    async def hibernate(self) -> None:
        """Moves its whole state to disk and frees its memory."""
        await self._act("hibernate")

    async def wake(self) -> None:
        """Brings a hibernated sandbox back as it was."""
        await self._act("wake")

    async def snapshot(self) -> str:
        """Saves its memory and disk; gives the snapshot's id."""
        return Fields(await self._act("snapshots"), "a snapshot").text("id")

    async def preview_url(self, port: int) -> str:
        """The address under which one of its ports is reached from outside."""
        if not 1 <= port <= 65535:
            raise ValueError(f"a port is 1 to 65535, not {port!r}")
        urls = await self.preview_urls()
        if port not in urls:
            raise NotFoundError(f"Nothing listens on port {port} of sandbox {self.id}.")
        return urls[port]

    async def preview_urls(self) -> Dict[int, str]:
        """The addresses of all ports on which something listens."""
        answer = await self._transport.json("GET", f"{self._path}/ports")
        return dict(Fields(answer, "the ports").items("ports", _port))

    async def _act(self, verb: str, body: Optional[Mapping[str, Any]] = None) -> Any:
        path = f"{self._path}/{verb}"
        return await self._transport.json("POST", path, body=body, read_timeout=_SAVING)

    async def _change(self, body: Mapping[str, Any]) -> Lifecycle:
        return self._lived(await self._transport.json("PATCH", f"{self._path}/lifecycle", body=body))

    def _lived(self, answer: object) -> Lifecycle:
        life = _models.lifecycle(answer)
        self.ttl_seconds, self.expires_at = life["ttl_seconds"], life["expires_at"]
        self.persistent = life["persistent"]
        return life


def _port(data: object) -> Tuple[int, str]:
    fields = Fields(data, "a port")
    return fields.integer("port"), fields.text("url")
