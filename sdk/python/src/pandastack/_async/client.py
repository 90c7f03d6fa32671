"""A server: where it is, its key, and what is not of one sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from types import TracebackType
from typing import Any, List, Optional

from .. import _discovery, _wire
from .._create_retry import OnCreateRetry, budget
from .._fields import bad_answer
from .._models import Health, Template, Version
from .._snapshots import Promotion
from ._io import Cancel
from .sandbox import AsyncSandbox
from .snapshots import AsyncSnapshots
from .transport import AsyncTransport


class AsyncClient:
    """One server. ``async with`` closes its connections at the end.

    Args:
        api_url: The server's address; else PANDASTACK_API, else the server that runs on this
            machine, else the config file.
        api_key: Its key; else PANDASTACK_API_KEY, else the key that belongs to the address.
        timeout: Seconds that a call may be silent. What runs in a sandbox has its own limit.
        api_base: The same as `api_url`.
        max_create_retry_seconds: For how long to ask again while the server has no room.
        on_create_retry: Called before each such wait.
    """

    def __init__(
        self,
        api_url: Optional[str] = None,
        api_key: Optional[str] = None,
        timeout: float = 30.0,
        api_base: Optional[str] = None,
        max_create_retry_seconds: Optional[float] = None,
        on_create_retry: Optional[OnCreateRetry] = None,
    ) -> None:
        endpoint = _discovery.find(api_url or api_base, api_key)
        self._transport = AsyncTransport(endpoint, timeout)
        self.max_create_retry_seconds = budget(max_create_retry_seconds)
        self.on_create_retry = on_create_retry
        self.sandboxes = AsyncSandboxes(self)
        self.snapshots = AsyncSnapshots(self)
        self.templates = AsyncTemplates(self)

    @property
    def api_url(self) -> str:
        """The server's address, "" where none is known."""
        return self._transport.endpoint.url

    @property
    def api_base(self) -> str:
        """The same as `api_url`."""
        return self.api_url

    @property
    def api_key(self) -> str:
        """The key, "" where none is known."""
        return self._transport.endpoint.key

    @property
    def timeout(self) -> float:
        """Seconds that a call may be silent."""
        return self._transport.timeout

    async def health(self) -> Health:
        """How the server is."""
        return Health.from_dict(await self._transport.json("GET", "/health"))

    async def version(self) -> Version:
        """What the server is."""
        return Version.from_dict(await self._transport.json("GET", "/version"))

    async def aclose(self) -> None:
        """Closes the connections. A later call opens new ones."""
        await self._transport.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.api_url or 'without a server'}>"


class AsyncSandboxes:
    """``client.sandboxes``: as `AsyncSandbox`, on this client's server."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def create(
        self,
        template: str = "code-interpreter",
        cpu: Optional[int] = None,
        memory_mb: Optional[int] = None,
        ttl_seconds: Optional[int] = None,
        persistent: bool = False,
        metadata: Optional[Mapping[str, str]] = None,
        from_snapshot: Optional[str] = None,
        volumes: Optional[Sequence[Mapping[str, Any]]] = None,
        *,
        env: Optional[Mapping[str, str]] = None,
        idle_timeout_seconds: Optional[int] = None,
        on_timeout: Optional[str] = None,
        auto_wake: Optional[bool] = None,
        timeout: Optional[float] = None,
        cancel: Optional[Cancel] = None,
    ) -> AsyncSandbox:
        """As `AsyncSandbox.create`, with the arguments in another order."""
        return await AsyncSandbox.create(
            template,
            cpu=cpu,
            memory_mb=memory_mb,
            metadata=metadata,
            ttl_seconds=ttl_seconds,
            persistent=persistent,
            from_snapshot=from_snapshot,
            volumes=volumes,
            env=env,
            idle_timeout_seconds=idle_timeout_seconds,
            on_timeout=on_timeout,
            auto_wake=auto_wake,
            timeout=timeout,
            cancel=cancel,
            client=self._client,
        )

    async def list(self) -> List[AsyncSandbox]:
        """As `AsyncSandbox.list`."""
        return await AsyncSandbox.list(client=self._client)

    async def get(self, sandbox_id: str) -> AsyncSandbox:
        """As `AsyncSandbox.get`."""
        return await AsyncSandbox.get(sandbox_id, client=self._client)

    async def fork(
        self,
        sandbox_id: str,
        metadata: Optional[Mapping[str, str]] = None,
        *,
        cancel: Optional[Cancel] = None,
    ) -> AsyncSandbox:
        """As `AsyncSandbox.fork`."""
        return await (await self.get(sandbox_id)).fork(metadata, cancel=cancel)

    async def fork_tree(
        self,
        sandbox_id: str,
        count: int,
        metadata: Optional[Mapping[str, str]] = None,
        *,
        cancel: Optional[Cancel] = None,
    ) -> List[AsyncSandbox]:
        """As `AsyncSandbox.fork_tree`."""
        return await (await self.get(sandbox_id)).fork_tree(count, metadata, cancel=cancel)

    async def promote(
        self, sandbox_id: str, *, cleanup_siblings: bool = False, tree_id: Optional[str] = None
    ) -> Promotion:
        """As `AsyncSandbox.promote`."""
        sandbox = await self.get(sandbox_id)
        return await sandbox.promote(cleanup_siblings=cleanup_siblings, tree_id=tree_id)

    async def delete(self, sandbox_id: str) -> None:
        """Deletes a sandbox with all its files.

        Raises:
            NotFoundError: There is none with this id.
        """
        await self._client._transport.json("DELETE", f"/sandboxes/{_wire.segment(sandbox_id)}")


class AsyncTemplates:
    """``client.templates``: what sandboxes can be made from."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def list(self) -> List[Template]:
        """All templates of the server."""
        answer = await self._client._transport.json("GET", "/templates")
        if not isinstance(answer, list):
            raise bad_answer("the list of templates is not an array")
        return [Template.from_dict(item) for item in answer]

    async def get(self, name: str) -> Template:
        """One template with its packages.

        Raises:
            NotFoundError: No template has this name.
        """
        answer = await self._client._transport.json("GET", f"/templates/{_wire.segment(name)}")
        return Template.from_dict(answer)


class _Defaults:
    """The clients of calls that name none: one for each server that was found."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._chosen: Optional[AsyncClient] = None
        self._found: dict[_discovery.Endpoint, AsyncClient] = {}

    def get(self) -> AsyncClient:
        with self._lock:
            if self._chosen is not None:
                return self._chosen
            # Sought each time: a server may have been started, or the environment changed.
            endpoint = _discovery.find()
            if endpoint not in self._found:
                self._found[endpoint] = AsyncClient(endpoint.url, endpoint.key)
            return self._found[endpoint]

    def set(self, client: Optional[AsyncClient]) -> None:
        with self._lock:
            self._chosen = client


_defaults = _Defaults()


def get_default_async_client() -> AsyncClient:
    """The client of calls that name none."""
    return _defaults.get()


def set_default_async_client(client: Optional[AsyncClient]) -> None:
    """Sets the client of calls that name none; None goes back to the one that is found."""
    _defaults.set(client)
