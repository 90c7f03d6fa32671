# Generated from _async/client.py by generate_sync.py. Do not edit.
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
from .sandbox import Sandbox
from .snapshots import Snapshots
from .transport import Transport


class Client:
    """One server. ``with`` closes its connections at the end.

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
        self._transport = Transport(endpoint, timeout)
        self.max_create_retry_seconds = budget(max_create_retry_seconds)
        self.on_create_retry = on_create_retry
        self.sandboxes = Sandboxes(self)
        self.snapshots = Snapshots(self)
        self.templates = Templates(self)

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

    def health(self) -> Health:
        """How the server is."""
        return Health.from_dict(self._transport.json("GET", "/health"))

    def version(self) -> Version:
        """What the server is."""
        return Version.from_dict(self._transport.json("GET", "/version"))

    def close(self) -> None:
        """Closes the connections. A later call opens new ones."""
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.api_url or 'without a server'}>"


class Sandboxes:
    """``client.sandboxes``: as `Sandbox`, on this client's server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(
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
    ) -> Sandbox:
        """As `Sandbox.create`, with the arguments in another order."""
        return Sandbox.create(
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

    def list(self) -> List[Sandbox]:
        """As `Sandbox.list`."""
        return Sandbox.list(client=self._client)

    def get(self, sandbox_id: str) -> Sandbox:
        """As `Sandbox.get`."""
        return Sandbox.get(sandbox_id, client=self._client)

    def fork(
        self,
        sandbox_id: str,
        metadata: Optional[Mapping[str, str]] = None,
        *,
        cancel: Optional[Cancel] = None,
    ) -> Sandbox:
        """As `Sandbox.fork`."""
        return (self.get(sandbox_id)).fork(metadata, cancel=cancel)

    def fork_tree(
        self,
        sandbox_id: str,
        count: int,
        metadata: Optional[Mapping[str, str]] = None,
        *,
        cancel: Optional[Cancel] = None,
    ) -> List[Sandbox]:
        """As `Sandbox.fork_tree`."""
        return (self.get(sandbox_id)).fork_tree(count, metadata, cancel=cancel)

    def promote(
        self, sandbox_id: str, *, cleanup_siblings: bool = False, tree_id: Optional[str] = None
    ) -> Promotion:
        """As `Sandbox.promote`."""
        sandbox = self.get(sandbox_id)
        return sandbox.promote(cleanup_siblings=cleanup_siblings, tree_id=tree_id)

    def delete(self, sandbox_id: str) -> None:
        """Deletes a sandbox with all its files.

        Raises:
            NotFoundError: There is none with this id.
        """
        self._client._transport.json("DELETE", f"/sandboxes/{_wire.segment(sandbox_id)}")


class Templates:
    """``client.templates``: what sandboxes can be made from."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self) -> List[Template]:
        """All templates of the server."""
        answer = self._client._transport.json("GET", "/templates")
        if not isinstance(answer, list):
            raise bad_answer("the list of templates is not an array")
        return [Template.from_dict(item) for item in answer]

    def get(self, name: str) -> Template:
        """One template with its packages.

        Raises:
            NotFoundError: No template has this name.
        """
        answer = self._client._transport.json("GET", f"/templates/{_wire.segment(name)}")
        return Template.from_dict(answer)


class _Defaults:
    """The clients of calls that name none: one for each server that was found."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._chosen: Optional[Client] = None
        self._found: dict[_discovery.Endpoint, Client] = {}

    def get(self) -> Client:
        with self._lock:
            if self._chosen is not None:
                return self._chosen
            # Sought each time: a server may have been started, or the environment changed.
            endpoint = _discovery.find()
            if endpoint not in self._found:
                self._found[endpoint] = Client(endpoint.url, endpoint.key)
            return self._found[endpoint]

    def set(self, client: Optional[Client]) -> None:
        with self._lock:
            self._chosen = client


_defaults = _Defaults()


def get_default_client() -> Client:
    """The client of calls that name none."""
    return _defaults.get()


def set_default_client(client: Optional[Client]) -> None:
    """Sets the client of calls that name none; None goes back to the one that is found."""
    _defaults.set(client)
