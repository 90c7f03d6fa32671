# Generated from _async/transport.py by generate_sync.py. Do not edit.
"""Sends requests, repeats those that may be repeated, and turns every failure into our errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any, Callable, Optional
from weakref import WeakKeyDictionary

import httpx

from .. import _wire
from .._discovery import HOW_TO_START, Endpoint
from .._events import Event, EventReader
from .._session import HEADERS, timeouts
from ..exceptions import AuthError, ConnectionError
from ._io import exchange, new_session, pause, scope

# Waits, in seconds, before a request that was lost is sent again.
_WAITS = (0.1, 0.4, 1.0)
# These answer without a key.
_OPEN = ("/health", "/version")

Body = Callable[[], Iterator[bytes]]


class Transport:
    """One server's connections. It may be used by many threads or tasks at once."""

    def __init__(self, endpoint: Endpoint, timeout: float) -> None:
        self.endpoint = endpoint
        self.timeout = timeout
        self._lock = Lock()
        self._sessions: WeakKeyDictionary[object, httpx.HTTPTransport] = WeakKeyDictionary()

    def close(self) -> None:
        """Closes the connections; a later request opens new ones."""
        with self._lock:
            session = self._sessions.pop(scope(), None)
        if session is not None:
            session.close()

    def json(
        self,
        method: str,
        path: str,
        *,
        body: Optional[Mapping[str, Any]] = None,
        params: Optional[Mapping[str, str]] = None,
        read_timeout: Optional[float] = -1,
        repeatable: bool = False,
    ) -> Any:
        """Sends a request and gives the answer's JSON, None where it has no body.

        A GET, a DELETE and what is `repeatable` are sent again when the connection
        breaks; everything else only while nothing was sent. `read_timeout` is in
        seconds, None for no limit; -1 takes the client's.
        """
        options: dict[str, Any] = {"params": params, "headers": {}}
        if body is not None:
            options["content"] = _wire.encode(body)
            options["headers"]["Content-Type"] = "application/json"
        repeatable = repeatable or method in ("GET", "DELETE")
        response = self._repeat(method, path, options, read_timeout, repeatable)
        return _wire.decode(response) if response.content else None

    def get_bytes(self, path: str, params: Mapping[str, str]) -> bytes:
        """Gets a whole body into memory."""
        response = self._repeat("GET", path, {"params": params, "headers": {}}, -1, True)
        return response.content

    def put_bytes(self, path: str, params: Mapping[str, str], body: Body, size: Optional[int]) -> Any:
        """Puts a body of `size` bytes that `body` can give again from its start."""
        headers = {"Content-Type": "application/octet-stream"}
        if size is not None:
            headers["Content-Length"] = str(size)
        # The answer comes after the file was synced to the sandbox's disk.
        options = {"params": params, "headers": headers}
        limit = max(self.timeout, 300.0)
        # What has no size, a pipe, cannot be read again.
        response = self._repeat("PUT", path, options, limit, size is not None, body)
        return _wire.decode(response)

    @contextmanager
    def stream(self, path: str, params: Mapping[str, str]) -> Iterator[httpx.Response]:
        """Gets a body piece by piece."""
        request = self._request("GET", path, {"params": params, "headers": {}}, -1)
        with self._open(request) as response:
            with self._translated():
                yield response

    @contextmanager
    def events(
        self,
        method: str,
        path: str,
        *,
        body: Optional[Mapping[str, Any]] = None,
        params: Optional[Mapping[str, str]] = None,
    ) -> Iterator[Iterator[Event]]:
        """Sends a request and gives the events of its answer as they come.

        What goes wrong between two events is raised by the iterator. The connection ends
        with the block.
        """
        headers = {"Accept": "text/event-stream", "Content-Type": "application/json"}
        options: dict[str, Any] = {"params": params, "headers": headers}
        if body is not None:
            options["content"] = _wire.encode(body)
        with self._open(self._request(method, path, options, _wire.SILENCE)) as response:
            yield self._events(response)

    def _events(self, response: httpx.Response) -> Iterator[Event]:
        reader = EventReader()
        with self._translated():
            for chunk in response.iter_bytes():
                for event in reader.feed(chunk):
                    yield event

    @contextmanager
    def _open(self, request: httpx.Request) -> Iterator[httpx.Response]:
        with self._translated():
            response = exchange(self._session(), request)
        try:
            if not response.is_success:
                with self._translated():
                    response.read()
                raise _wire.error_of(response)
            yield response
        finally:
            response.close()

    def _repeat(
        self,
        method: str,
        path: str,
        options: dict[str, Any],
        read_timeout: Optional[float],
        repeatable: bool,
        body: Optional[Body] = None,
    ) -> httpx.Response:
        again = ("client.unreachable", "client.connection_lost") if repeatable else ("client.unreachable",)
        lost: Optional[ConnectionError] = None
        for wait in (*_WAITS, None):
            content = {} if body is None else {"content": body()}
            request = self._request(method, path, {**options, **content}, read_timeout)
            try:
                return self._send(request)
            except ConnectionError as error:
                if error.code == "client.connection_lost":
                    lost = error
                if wait is None or error.code not in again:
                    # That it was under way when the server went tells more than that it is gone now.
                    raise lost or error from error.__cause__
            pause(wait)
        raise AssertionError("the last attempt returns or raises")

    def _send(self, request: httpx.Request) -> httpx.Response:
        with self._translated():
            response = exchange(self._session(), request)
            try:
                response.read()
            except BaseException:
                response.close()
                raise
        if not response.is_success:
            raise _wire.error_of(response)
        return response

    def _request(
        self, method: str, path: str, options: dict[str, Any], read_timeout: Optional[float]
    ) -> httpx.Request:
        headers = {**HEADERS, **options.pop("headers"), **self._authorization(path)}
        url = _wire.address(self._url(), path)
        timeout = timeouts(self.timeout if read_timeout == -1 else read_timeout)
        return httpx.Request(method, url, headers=headers, extensions={"timeout": timeout}, **options)

    def _session(self) -> httpx.HTTPTransport:
        with self._lock:
            owner = scope()
            session = self._sessions.get(owner)
            if session is None:
                session = self._sessions[owner] = new_session(self._url())
            return session

    def _url(self) -> str:
        if self.endpoint.url:
            return self.endpoint.url
        message = f"No PandaStack server is known. {self.endpoint.looked}".strip()
        raise ConnectionError(message, code="client.no_server", hint=HOW_TO_START)

    def _authorization(self, path: str) -> dict[str, str]:
        if self.endpoint.key:
            return {"Authorization": f"Bearer {self.endpoint.key}"}
        if path in _OPEN:
            return {}
        raise AuthError(
            f"There is no API key for {self._url()}.",
            code="auth.missing_key",
            hint="Set PANDASTACK_API_KEY; the first key is in the file 'key' of the server's data directory.",
        )

    def _translated(self) -> _Translated:
        return _Translated(self.endpoint.url)


class _Translated:
    """A block whose httpx errors become ours."""

    def __init__(self, url: str) -> None:
        self._where = url

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        if isinstance(error, (httpx.TransportError, httpx.DecodingError)):
            raise self._error(error) from error
        if isinstance(error, (httpx.InvalidURL, httpx.StreamError)):
            raise ConnectionError(f"{self._where}: {error}", code="client.unreachable") from error

    def _error(self, error: Exception) -> ConnectionError:
        reason = str(error) or type(error).__name__
        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)):
            message = f"No server answers at {self._where} ({reason})."
            return ConnectionError(message, code="client.unreachable", hint=HOW_TO_START)
        if isinstance(error, httpx.UnsupportedProtocol):
            return ConnectionError(f"{self._where!r} is not an http:// address.", code="client.bad_address")
        if isinstance(error, httpx.TimeoutException):
            message = f"The server at {self._where} did not answer in time ({reason})."
            return ConnectionError(message, code="client.timeout")
        message = f"The connection to {self._where} broke ({reason})."
        return ConnectionError(message, code="client.connection_lost")
