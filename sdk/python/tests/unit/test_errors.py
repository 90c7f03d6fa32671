"""From a status and a body to an error."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import pandastack
from pandastack import PandastackError
from tests.flavours import Flavour
from tests.unit.wire_server import WireServer, answer


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "request.bad_json", "BadRequestError"),
        (401, "auth.wrong_key", "AuthError"),
        (403, "auth.host_not_allowed", "AuthError"),
        (403, "file.permission", "BadRequestError"),
        (404, "template.not_found", "NotFoundError"),
        (409, "sandbox.not_running", "ConflictError"),
        (410, "sandbox.failed", "SandboxFailed"),
        (413, "request.too_large", "BadRequestError"),
        (422, "request.invalid", "BadRequestError"),
        (429, "", "CapacityError"),
        (500, "internal", "ServerError"),
        (500, "template.build_failed", "TemplateBuildError"),
        (501, "feature.not_offered", "NotOfferedError"),
        (503, "host.no_vmm", "ServerError"),
        (503, "sandbox.capacity", "CapacityError"),
        (504, "exec.timeout", "SandboxTimeout"),
        (504, "", "ServerError"),
        (507, "file.no_space", "ServerError"),
    ],
)
def test_class(flavour: Flavour, wire: WireServer, sandbox: Any, status: int, code: str, kind: str) -> None:
    body = {"error": "It failed.", "code": code, "hint": "Do this."}
    wire.reply(answer(status, body, {"X-Request-Id": "r7"}))
    with pytest.raises(PandastackError) as caught:
        flavour.run(sandbox.exec("true"))
    error = caught.value
    assert type(error) is getattr(pandastack, kind)
    assert (error.status, error.code, error.request_id) == (status, code, "r7")
    assert str(error) == "It failed. Do this."


def test_what_a_killed_process_printed_is_kept(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    detail = {"stdout": "so far", "stderr": "oh"}
    wire.reply(answer(504, {"error": "Too slow.", "code": "exec.timeout", "detail": detail}))
    with pytest.raises(pandastack.SandboxTimeout) as caught:
        flavour.run(sandbox.exec("sleep 9", timeout=1))
    assert (caught.value.partial_stdout, caught.value.partial_stderr) == ("so far", "oh")


def test_fields_are_in_the_text(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    fields = [{"path": "body.ttl_seconds", "message": "expected a number"}, "nonsense"]
    wire.reply(answer(422, {"error": "Wrong.", "code": "request.invalid", "fields": fields}))
    with pytest.raises(pandastack.BadRequestError, match=r"body\.ttl_seconds: expected a number") as caught:
        flavour.run(sandbox.refresh())
    assert len(caught.value.fields) == 1


@pytest.mark.parametrize("body", [b"<h1>Bad Gateway</h1>", b"\xff", b"[]", b'{"error": {"a": 1}}', b""])
def test_an_error_page_of_a_proxy(flavour: Flavour, wire: WireServer, sandbox: Any, body: bytes) -> None:
    wire.reply(answer(502, body, {"Content-Type": "text/html"}))
    with pytest.raises(pandastack.ServerError, match=r"HTTP 502 for GET http"):
        flavour.run(sandbox.refresh())


def test_a_redirect_is_not_followed(flavour: Flavour, wire: WireServer, sandbox: Any) -> None:
    wire.reply(answer(302, None, {"Location": "http://127.0.0.1:1/"}))
    with pytest.raises(pandastack.BadRequestError, match="HTTP 302"):
        flavour.run(sandbox.refresh())


def test_exists_tells_a_missing_file_from_a_missing_sandbox(
    flavour: Flavour, wire: WireServer, sandbox: Any
) -> None:
    wire.reply(
        answer(404, {"error": "No file.", "code": "file.not_found"}),
        answer(404, {"error": "No sandbox.", "code": "sandbox.not_found"}),
    )
    assert flavour.run(sandbox.filesystem.exists("x")) is False
    with pytest.raises(pandastack.NotFoundError):
        flavour.run(sandbox.filesystem.exists("x"))


def test_errors_survive_pickling() -> None:
    error = pandastack.CommandFailed("no", exit_code=3, stdout="out", status=500, hint="try")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.exit_code, again.stdout, again.status) == ("no try", 3, "out", 500)
