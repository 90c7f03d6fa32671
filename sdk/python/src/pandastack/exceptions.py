"""Every error this package raises on behalf of a server, a sandbox or a cell.

All of them are `PandastackError`. Wrong arguments are ``ValueError`` and
``TypeError``; trouble with a local file is Python's own ``OSError``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

if TYPE_CHECKING:
    from ._explore import BranchOutcome
    from ._results import Execution


class FieldError(NamedTuple):
    """One part of a request that the server did not accept."""

    path: str
    message: str


class PandastackError(Exception):
    """The root of all errors. ``str()`` gives the sentence and the hint.

    Attributes:
        message: One sentence.
        status: The HTTP status, or None where no server answered.
        code: A stable name such as ``sandbox.not_found``; ``client.*`` where the error arose here.
        hint: What to do about it.
        fields: The parts of the request that are wrong.
        detail: More facts by name, as the server gave them.
        retry_after: Seconds after which the server wants to be asked again.
        request_id: Under which the server's log has the cause.
    """

    def __init__(
        self,
        message: str = "",
        *,
        status: Optional[int] = None,
        code: str = "",
        hint: str = "",
        fields: Sequence[FieldError] = (),
        detail: Optional[Mapping[str, Any]] = None,
        retry_after: Optional[float] = None,
        request_id: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.hint = hint
        self.fields = tuple(fields)
        self.detail: dict[str, Any] = dict(detail or {})
        self.retry_after = retry_after
        self.request_id = request_id

    def __str__(self) -> str:
        wrong = "; ".join(f"{path}: {message}" for path, message in self.fields)
        parts = [self.message, f"[{wrong}]" if wrong else "", self.hint]
        return " ".join(part for part in parts if part)


class AuthError(PandastackError):
    """The API key is missing or wrong, or the server does not answer for this address."""


class BadRequestError(PandastackError):
    """The server did not accept the request."""


class NotFoundError(PandastackError):
    """There is no such sandbox, context, execution, file or template."""


class ConflictError(BadRequestError):
    """The object is in a state that does not allow the call."""


class ServerError(PandastackError):
    """The server failed, or answered what this package does not understand."""


class CapacityError(ServerError):
    """The server has no room, or the template is not ready yet. `retry_after` may say when to ask again."""


class NotOfferedError(ServerError):
    """The server knows this call but does not offer it; its code is ``feature.not_offered``."""


class ConnectionError(PandastackError):
    """No server answered, or the connection broke.

    ``code`` is ``client.no_server`` (none is known), ``client.unreachable`` (nothing
    was sent), ``client.connection_lost`` or ``client.timeout`` (the request may have
    been carried out).
    """


APIConnectionError = ConnectionError


class SandboxFailed(PandastackError):
    """The sandbox's virtual machine ended, or the sandbox was deleted, while something ran in it."""


class _Unfinished(PandastackError):
    """Keeps what a process printed before it was given up."""

    def __init__(
        self, message: str = "", *, partial_stdout: str = "", partial_stderr: str = "", **about: Any
    ) -> None:
        super().__init__(message, **about)
        self.partial_stdout = partial_stdout
        self.partial_stderr = partial_stderr


class SandboxTimeout(_Unfinished):
    """A process ran into its time limit and was killed, or a cell was not answered in time.

    A cell that runs into its limit is no error: its `Execution` says so.
    """


class ExecInterrupted(_Unfinished):
    """The connection broke while a process ran in the sandbox."""


class CommandFailed(PandastackError):
    """A process ended with an exit code other than 0, and ``check`` was set."""

    def __init__(
        self, message: str = "", *, exit_code: int = 1, stdout: str = "", stderr: str = "", **about: Any
    ) -> None:
        super().__init__(message, **about)
        self.exit_code = exit_code
        self.stdout = stdout
        self.stderr = stderr


class CellFailed(PandastackError):
    """A cell ended with an error, and ``check`` was set. `execution` has all that it left."""

    def __init__(self, message: str = "", *, execution: Optional[Execution] = None, **about: Any) -> None:
        super().__init__(message, **about)
        self.execution = execution


class TemplateBuildError(PandastackError):
    """The template could not be built."""

    def __init__(self, message: str = "", *, build: Any = None, **about: Any) -> None:
        super().__init__(message, **about)
        self.build = build


class ExploreError(PandastackError):
    """``explore`` chose nothing, and no copy is left. `outcomes` has what came of the candidates."""

    def __init__(self, message: str = "", *, outcomes: Sequence[BranchOutcome] = (), **about: Any) -> None:
        super().__init__(message, **about)
        self.outcomes = list(outcomes)


class CreateCancelled(PandastackError):
    """``create`` was cancelled while it waited for room; its cause is the last refusal."""
