"""How an HTTP session is set up, the same for both flavours."""

from __future__ import annotations

import socket
import urllib.request
from typing import Any, Optional
from urllib.parse import urlsplit

import httpx

from ._version import __version__

CONNECT_TIMEOUT = 10.0
HEADERS = {"User-Agent": f"pandastack-python/{__version__}", "Accept": "application/json"}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def transport_options(url: str) -> dict[str, Any]:
    """Arguments of httpx's transport for a server."""
    return {
        # A loaded trust store costs tens of milliseconds; a plain http:// address needs none.
        "verify": urlsplit(url).scheme == "https",
        "proxy": _proxy(url),
        # Each cell that runs holds a connection: their number is the caller's choice.
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=32),
        "socket_options": _keepalive(),
    }


def timeouts(read: Optional[float]) -> dict[str, Optional[float]]:
    """A request's, as httpx's transports take them. Connecting is always bounded; `read` is the longest
    silence, None for no bound."""
    return {"connect": CONNECT_TIMEOUT, "read": read, "write": 60.0, "pool": None}


def _proxy(url: str) -> Optional[str]:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in _LOOPBACK or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(parts.scheme)


def _keepalive() -> list[tuple[int, int, int]]:
    """Lets the kernel notice within about a minute that a silent server is gone."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options
