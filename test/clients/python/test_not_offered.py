"""Every other method of the published Python client answers 501 with a code and a hint."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Watched
from pandastack import Client, Sandbox
from pandastack.exceptions import PandastackError, ServerError

NAMESPACES = [
    "apps",
    "databases",
    "functions",
    "schedules",
    "tokens",
    "volumes",
]

# Arguments by the parameter's name; any other gets a string.
ARGUMENTS: dict[str, Any] = {
    "size_mb": 64,
    "github_repo_id": 1,
    "bundle_bytes": b"x",
    "bundle": b"x",
    "dotenv": "A=1",
}
# Methods that call another one first, or nothing but another one.
OFFERED_TEMPLATES = {"list", "get"}
LOCAL_TEMPLATES = {"push"}  # runs docker before it calls anybody


def methods(namespace: str) -> list[str]:
    api = getattr(Client(api_key="x"), namespace)
    return [name for name, _ in inspect.getmembers(api, inspect.ismethod) if not name.startswith("_")]


def arguments(method: Callable[..., Any], code: Path) -> dict[str, Any]:
    given = {
        **ARGUMENTS,
        "file_path": str(code),
        "path": str(code),
        "dockerfile": "FROM scratch",
    }
    return {
        name: given.get(name, "x")
        for name, parameter in inspect.signature(method).parameters.items()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    }


def refused(client: Watched, call: Callable[[], Any]) -> None:
    client.answers.clear()
    with pytest.raises(PandastackError) as caught:
        result = call()
        if isinstance(result, (types.GeneratorType, Iterator)):
            list(result)
    assert isinstance(caught.value, ServerError)
    assert len(client.answers) == 1
    answer = client.last
    body = answer.json()
    assert (answer.status_code, body["code"]) == (501, "feature.not_offered")
    assert body["error"] and body["hint"]
    assert body["error"] in str(caught.value)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    file = tmp_path / "handler.py"
    file.write_text("def handler(event): return event\n")
    return file


@pytest.mark.parametrize("name", [f"{one}.{method}" for one in NAMESPACES for method in methods(one)])
def test_namespaces(client: Watched, code: Path, name: str) -> None:
    namespace, method = name.split(".")
    call = getattr(getattr(client, namespace), method)
    refused(client, lambda: call(**arguments(call, code)))


@pytest.mark.parametrize("name", sorted(set(methods("templates")) - OFFERED_TEMPLATES - LOCAL_TEMPLATES))
def test_templates(client: Watched, code: Path, name: str) -> None:
    call = getattr(client.templates, name)
    given = arguments(call, code)
    if name == "build":
        given["rootfs_tar"] = str(code)
    refused(client, lambda: call(**given))


def test_sandboxes(client: Watched, sandbox: Sandbox) -> None:
    refused(client, sandbox.preview_urls)


def test_create_with_what_is_not_offered(client: Watched) -> None:
    refused(client, lambda: Sandbox.create(volumes=[{"name": "x", "read_only": True}]))


def test_me(client: Watched) -> None:
    refused(client, client.me)
