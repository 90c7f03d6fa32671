# Generated from _async/lifecycle.py by generate_sync.py. Do not edit.
"""When a sandbox ends, stands still or sleeps, its snapshots and its log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Dict, Optional, Tuple

from .. import _models, _wire
from .._fields import Fields
from .._models import Lifecycle, SandboxInfo, sandbox_info
from .._snapshots import SnapshotId, snapshot
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

    def set_lifecycle(
        self,
        *,
        ttl_seconds: Optional[int] = None,
        persistent: Optional[bool] = None,
        idle_timeout_seconds: Optional[int] = None,
        on_timeout: Optional[str] = None,
        auto_wake: Optional[bool] = None,
    ) -> Lifecycle:
        """Changes what is given, together, and tells what holds now.

        Args:
            ttl_seconds: Seconds to live from now; 0 until it is deleted.
            persistent: Whether ``with`` leaves it alive. A time to live ends it all the same.
            idle_timeout_seconds: `on_timeout` happens when nothing has run in it for so long; 0 never.
            on_timeout: ``kill`` or ``hibernate``, at the end of either time.
            auto_wake: The next call wakes it from hibernation.
        """
        changes = _wire.given(
            ttl_seconds=ttl_seconds,
            persistent=persistent,
            idle_timeout_seconds=idle_timeout_seconds,
            on_timeout=on_timeout,
            auto_wake=auto_wake,
        )
        return self._lived(self._transport.json("PATCH", f"{self._path}/lifecycle", body=changes))

    def set_ttl(self, seconds: int) -> Lifecycle:
        """Lets it live for so many seconds from now; 0 until it is deleted."""
        return self.set_lifecycle(ttl_seconds=seconds)

    def set_persistent(self, persistent: bool) -> Lifecycle:
        """Whether ``with`` leaves it alive. A time to live ends it all the same."""
        return self.set_lifecycle(persistent=persistent)

    def set_idle_timeout(self, seconds: int, on_timeout: Optional[str] = None) -> Lifecycle:
        """Ends it, or with ``hibernate`` moves it to disk, when nothing ran in it for so long; 0 never."""
        return self.set_lifecycle(idle_timeout_seconds=seconds, on_timeout=on_timeout)

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
        """Lets it stand still in memory, whatever runs in it; `resume` lets it go on.

        Raises:
            ConflictError: Another call is changing its state. So it is for the calls below.
        """
        self._change_state("pause")

    def resume(self) -> None:
        """Lets a paused sandbox go on; one that is hibernated wakes."""
        self._change_state("resume")

    def hibernate(self) -> None:
        """Moves its whole state to disk and frees its memory.

        The next call on its contexts, processes or files wakes it, unless its `auto_wake` is
        False; a cell that was running goes on then.
        """
        self._change_state("hibernate")

    def wake(self, *, from_disk: bool = False) -> None:
        """Brings a hibernated sandbox back as it was, kernels and processes included.

        Args:
            from_disk: Boot it anew from its files. What was in memory is lost: for a state that
                does not fit this server any more (``snapshot.host_mismatch``, ``snapshot.damaged``).
        """
        self._change_state("wake", {"from": "disk"} if from_disk else None)

    def snapshot(
        self, name: Optional[str] = None, *, metadata: Optional[Mapping[str, str]] = None
    ) -> SnapshotId:
        """Saves its memory and disk, for any number of sandboxes to go on from. It goes on itself.

        Args:
            name: Another name of the snapshot, besides its id.
            metadata: In addition to this sandbox's.

        Returns:
            The snapshot's id, whose ``snapshot`` has the rest.
        """
        body = _wire.sparse(name=name, metadata=dict(metadata or {})) or None
        return SnapshotId.of(snapshot(self._act("snapshots", body)))

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

    def _change_state(self, verb: str, body: Optional[Mapping[str, Any]] = None) -> None:
        self._adopt(sandbox_info(self._act(verb, body), self.persistent))

    def _lived(self, answer: object) -> Lifecycle:
        life = _models.lifecycle(answer)
        self.ttl_seconds, self.expires_at = life["ttl_seconds"], life["expires_at"]
        self.persistent = life["persistent"]
        return life

    def _adopt(self, info: SandboxInfo) -> None:
        for one in fields(info):
            setattr(self, one.name, getattr(info, one.name))


def _port(data: object) -> Tuple[int, str]:
    port = Fields(data, "a port")
    return port.integer("port"), port.text("url")
