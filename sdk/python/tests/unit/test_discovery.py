"""Where the server and the key come from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pandastack import AuthError, Client, ConnectionError, Sandbox
from pandastack._discovery import Endpoint, find

LOCAL = "http://127.0.0.1:7000"
CONFIGURED = "https://panda.example"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "PANDASTACK_DATA_DIR": str(tmp_path / "data")}


def local_server(environ: dict[str, str], pid: int) -> None:
    folder = Path(environ["PANDASTACK_DATA_DIR"])
    folder.mkdir()
    (folder / "key").write_text("local-key\n")
    server = {"url": f"{LOCAL}/", "pid": pid, "key_file": str(folder / "key")}
    (folder / "server.json").write_text(json.dumps(server))


def config(environ: dict[str, str], **content: str) -> None:
    path = Path(environ["HOME"]) / ".config/pandastack/config.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))


def where(endpoint: Endpoint) -> tuple[str, str]:
    return endpoint.url, endpoint.key


def test_order(environ: dict[str, str]) -> None:
    config(environ, api_url=CONFIGURED, token="config-key")
    assert where(find(environ=environ)) == (CONFIGURED, "config-key")
    local_server(environ, os.getpid())
    assert where(find(environ=environ)) == (LOCAL, "local-key")
    environ |= {"PANDASTACK_API": "http://env/", "PANDASTACK_API_KEY": "env-key"}
    assert where(find(environ=environ)) == ("http://env", "env-key")
    assert where(find("http://arg", "arg-key", environ)) == ("http://arg", "arg-key")


def test_a_key_is_sent_only_to_the_server_it_belongs_to(environ: dict[str, str]) -> None:
    config(environ, api_url=CONFIGURED, api_key="config-key")
    local_server(environ, os.getpid())
    assert where(find("http://elsewhere", environ=environ)) == ("http://elsewhere", "")
    assert where(find(LOCAL, environ=environ)) == (LOCAL, "local-key")
    assert where(find(CONFIGURED, environ=environ)) == (CONFIGURED, "config-key")


def test_a_killed_server_is_not_used(environ: dict[str, str]) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    local_server(environ, ended.pid)
    found = find(environ=environ)
    assert where(found) == ("", "")
    assert f"process {ended.pid}, which has ended" in found.looked


@pytest.mark.parametrize("content", ["", "[]", "{", '{"url": 1}'])
def test_a_broken_file_is_said_and_not_used(environ: dict[str, str], content: str) -> None:
    local_server(environ, os.getpid())
    path = Path(environ["PANDASTACK_DATA_DIR"]) / "server.json"
    path.write_text(content)
    found = find(environ=environ)
    assert found.url in ("", "1")


def test_without_a_server_the_error_says_how_to_start_one() -> None:
    with pytest.raises(ConnectionError, match=r"No PandaStack server is known.*pandastack serve") as caught:
        Sandbox.create()
    assert caught.value.code == "client.no_server"


def test_a_refused_connection_says_how_to_start_one() -> None:
    with Client("http://127.0.0.1:1", "key") as client, pytest.raises(ConnectionError) as caught:
        client.health()
    assert caught.value.code == "client.unreachable"
    assert "pandastack serve" in str(caught.value)


def test_without_a_key_nothing_is_sent() -> None:
    with Client("http://127.0.0.1:1") as client, pytest.raises(AuthError, match="PANDASTACK_API_KEY"):
        client.sandboxes.list()
