# Generated from _async/sandbox.py by generate_sync.py. Do not edit.
"""A sandbox: one microVM."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, List, Optional, TypeVar, Union

from .. import _wire
from .._explore import Candidate, ExploreResult
from .._fields import Fields
from .._models import SandboxInfo, context_info, sandbox_info
from ..exceptions import ConnectionError, NotFoundError, PandastackError
from ._io import Cancel
from .context import CodeContext
from .explore import explore
from .filesystem import SandboxFilesystem
from .forks import Forks
from .lifecycle import Life
from .processes import Processes, SandboxCommands
from .room import START_LIMIT, ask

if TYPE_CHECKING:
    from .client import Client

_log = logging.getLogger("pandastack")

S = TypeVar("S", bound="Sandbox")


class Sandbox(Processes, Life, Forks):
    """One microVM with its own kernel, files and processes.

    ``with`` deletes it at the end, unless it is persistent. Without ``with``
    it lives until `kill`, or until its time to live ends: dropping the Python object
    deletes nothing.
    """

    def __init__(self, client: Client, info: SandboxInfo) -> None:
        self._client = client
        self._transport = client._transport
        self._path = f"/sandboxes/{_wire.segment(info.id)}"
        self._adopt(info)
        self.filesystem = SandboxFilesystem(self._transport, self._path)
        self.commands = SandboxCommands(self)

    @classmethod
    def create(
        cls: type[S],
        template: str = "code-interpreter",
        cpu: Optional[int] = None,
        memory_mb: Optional[int] = None,
        metadata: Optional[Mapping[str, str]] = None,
        ttl_seconds: Optional[int] = None,
        persistent: bool = False,
        from_snapshot: Optional[str] = None,
        volumes: Optional[Sequence[Mapping[str, Any]]] = None,
        *,
        env: Optional[Mapping[str, str]] = None,
        idle_timeout_seconds: Optional[int] = None,
        on_timeout: Optional[str] = None,
        auto_wake: Optional[bool] = None,
        timeout: Optional[float] = None,
        cancel: Optional[Cancel] = None,
        client: Optional[Client] = None,
    ) -> S:
        """Starts a sandbox and returns when code can run in it.

        Where the server has no room now, it is asked again for up to `timeout` seconds
        (else the client's ``max_create_retry_seconds``, 60).

        Args:
            template: What to make it from; not looked at with `from_snapshot`.
            cpu: Virtual CPUs; None for the template's. Another size than the template's is
                baked when first asked for, some minutes in which there is no room for it.
            memory_mb: Its memory in units of 2**20 bytes; None for the template's.
            metadata: Your own names and values, to find it by.
            ttl_seconds: Seconds after which it is deleted; None until deleted.
            persistent: ``with`` leaves it alive.
            from_snapshot: Id or name of a snapshot to go on from, with its template and size.
            volumes: Volumes to attach, where the server offers them.
            env: Environment of every process and context started through the API.
            idle_timeout_seconds: `on_timeout` happens when nothing has run in it for so long.
            on_timeout: ``kill`` (the default) or ``hibernate``, at the end of either time.
            auto_wake: Whether the next call wakes it from hibernation, which is the default.
            timeout: Seconds for all of it.
            cancel: An event that ends the wait for room.
            client: The server to use; by default the one found as the README says.

        Raises:
            NotFoundError: No template, or no snapshot, has this name.
            CapacityError: There was no room until the end of the wait.
            CreateCancelled: `cancel` was set.
            ConnectionError: No server answers. Where its code is ``client.timeout`` or
                ``client.connection_lost`` a sandbox may have been made; `list` shows it.
        """
        client = client or _default_client()
        seconds = _wire.limit(timeout, None)
        body = _wire.sparse(
            template="" if from_snapshot else template,
            cpu=cpu,
            memory_mb=memory_mb,
            metadata=dict(metadata or {}),
            ttl_seconds=ttl_seconds,
            persistent=persistent,
            from_snapshot=from_snapshot,
            volumes=[dict(volume) for volume in volumes or ()],
            env=dict(env or {}),
            idle_timeout_seconds=idle_timeout_seconds,
            on_timeout=on_timeout,
        )
        body.update(_wire.given(auto_wake=auto_wake))
        answer = ask(client, "/sandboxes", body, seconds, cancel)
        return cls.from_dict(answer, client, persistent)

    @classmethod
    def list(cls: type[S], *, client: Optional[Client] = None) -> List[S]:
        """All sandboxes of the server."""
        client = client or _default_client()
        answer = client._transport.json("GET", "/sandboxes")
        return Fields(answer, "the list of sandboxes").items("items", lambda d: cls.from_dict(d, client))

    @classmethod
    def get(cls: type[S], sandbox_id: str, *, client: Optional[Client] = None) -> S:
        """The sandbox with this id.

        Raises:
            NotFoundError: There is none.
        """
        client = client or _default_client()
        answer = client._transport.json("GET", f"/sandboxes/{_wire.segment(sandbox_id)}")
        return cls.from_dict(answer, client)

    @classmethod
    def from_dict(cls: type[S], data: object, client: Client, persistent: bool = False) -> S:
        """Makes the object from the server's JSON."""
        return cls(client, sandbox_info(data, persistent))

    def refresh(self: S) -> S:
        """Asks the server for this object's fields again and returns the object itself."""
        answer = self._transport.json("GET", self._path)
        self._adopt(sandbox_info(answer, self.persistent))
        return self

    def kill(self) -> None:
        """Deletes the sandbox with all its files; one that is gone already is fine."""
        try:
            self._transport.json("DELETE", self._path, read_timeout=120.0)
        except NotFoundError:
            return

    def create_code_context(
        self,
        language: Optional[str] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        *,
        kernel: Optional[str] = None,
        name: Optional[str] = None,
    ) -> CodeContext:
        """Starts a kernel and returns when it takes cells.

        Args:
            language: One of the template's, such as ``bash``; ``python`` (also ``py`` and ``python3``)
                unless `kernel` says otherwise.
            cwd: Folder to start in, ``/workspace`` by default.
            env: Environment besides the sandbox's.
            kernel: A Jupyter kernelspec of the template, such as ``ipykernel``, instead of the
                language's own kernel.
            name: A label, to know it by in lists.
        """
        spoken = _wire.language(language) if language else None
        body = _wire.sparse(language=spoken, kernel=kernel, cwd=cwd, env=dict(env or {}), name=name)
        answer = self._transport.json(
            "POST", f"{self._path}/contexts", body=body, read_timeout=START_LIMIT
        )
        return self._context(answer)

    def contexts(self) -> List[CodeContext]:
        """The contexts there are."""
        answer = self._transport.json("GET", f"{self._path}/contexts")
        return Fields(answer, "the list of contexts").items("items", self._context)

    def context(self, context_id: str) -> CodeContext:
        """The context with this id."""
        path = f"{self._path}/contexts/{_wire.segment(context_id)}"
        return self._context(self._transport.json("GET", path))

    def explore(
        self: S, candidates: Sequence[Union[Candidate, str]], **options: Any
    ) -> ExploreResult[S]:
        """Tries several ways at once, each in a copy of its own, and keeps the best copy.

        Arguments, errors and result are those of `pandastack.explore`.
        """
        return explore(self, candidates, **options)

    def __enter__(self: S) -> S:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self.persistent:
            return
        try:
            self.kill()
        except PandastackError as failure:
            if error is None:
                raise
            _log.warning("sandbox %s was not deleted: %s", self.id, failure)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.template} {self.status}>"

    def _explain(self, error: ConnectionError, what: str) -> PandastackError:
        """What to raise when no answer came: asks the server, if it answers again, how the sandbox is."""
        if error.code not in ("client.timeout", "client.connection_lost"):
            return error
        try:
            self.refresh()
        except ConnectionError:
            return _wire.explain(error, what, None)
        except NotFoundError as gone:
            return gone
        return _wire.explain(error, what, self)

    def _context(self, data: object) -> CodeContext:
        return CodeContext(self._transport, self._path, context_info(data), self._explain)


def _default_client() -> Client:
    from .client import get_default_client  # the client's module needs this one

    return get_default_client()
