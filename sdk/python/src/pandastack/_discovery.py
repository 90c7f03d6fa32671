"""Finds the server and its key: arguments, environment, the local server, the config file.

A key found in a file is only ever sent to the server that file names.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

HOW_TO_START = (
    "Start one with 'pandastack serve' ('make demo' in a clone shows it at work),"
    " or set PANDASTACK_API and PANDASTACK_API_KEY."
)


@dataclass(frozen=True)
class Endpoint:
    """Where to send requests. `url` is "" when no server is known; `looked` then says where it was sought."""

    url: str
    key: str
    looked: str = ""


@dataclass(frozen=True)
class _Candidate:
    url: str = ""
    key: str = ""
    note: str = ""


def find(
    api_url: Optional[str] = None,
    api_key: Optional[str] = None,
    environ: Optional[Mapping[str, str]] = None,
) -> Endpoint:
    """Takes the arguments, else PANDASTACK_API(_KEY), else the local server, else the config file."""
    environ = os.environ if environ is None else environ
    url = _trim(api_url or environ.get("PANDASTACK_API", ""))
    key = (api_key or environ.get("PANDASTACK_API_KEY", "")).strip()
    if url and key:
        return Endpoint(url, key)
    known = [_local_server(environ), _config_file(environ)]
    url = url or next((c.url for c in known if c.url), "")
    key = key or next((c.key for c in known if c.key and c.url in ("", url)), "")
    return Endpoint(url, key, " ".join(c.note for c in known if c.note))


def data_dir(environ: Mapping[str, str]) -> Path:
    """The local server's data directory."""
    if environ.get("PANDASTACK_DATA_DIR"):
        return Path(environ["PANDASTACK_DATA_DIR"])
    if sys.platform != "win32" and os.geteuid() == 0:
        return Path("/var/lib/pandastack")
    return _home(environ) / ".local/share/pandastack"


def _local_server(environ: Mapping[str, str]) -> _Candidate:
    path = data_dir(environ) / "server.json"
    try:
        server = _read_object(path)
        key_file = str(server.get("key_file") or path.with_name("key"))
        key = Path(key_file).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return _Candidate(note=f"There is no {path}.")
    except (OSError, ValueError) as error:
        return _Candidate(note=f"{path} cannot be used: {error}.")
    if not _alive(server.get("pid")):
        return _Candidate(note=f"{path} names process {server['pid']}, which has ended.")
    return _Candidate(_trim(str(server.get("url") or "")), key)


def _config_file(environ: Mapping[str, str]) -> _Candidate:
    path = _home(environ) / ".config/pandastack/config.json"
    try:
        config = _read_object(path)
    except (OSError, ValueError):
        return _Candidate()
    key = config.get("token") or config.get("api_key") or ""
    return _Candidate(_trim(str(config.get("api_url") or "")), str(key).strip())


def _read_object(path: Path) -> dict[str, Any]:
    value = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def _alive(pid: object) -> bool:
    # A server that was killed leaves its file behind.
    if not isinstance(pid, int) or pid <= 0 or sys.platform == "win32":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or Path.home())


def _trim(url: str) -> str:
    return url.strip().rstrip("/")
