# Generated from _async/processes.py by generate_sync.py. Do not edit.
"""A sandbox's processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Callable, Optional, Union

from .. import _wire
from .._events import Event
from .._models import ExecChunk, ExecResult, SandboxInfo, StreamedResult
from .._output import Output
from ..exceptions import ConnectionError, PandastackError
from ._io import notify
from .transport import Transport

OnOutput = Callable[[str], object]


class Processes(SandboxInfo):
    """Runs processes."""

    _transport: Transport
    _path: str

    def exec(
        self,
        cmd: Union[str, Sequence[str]],
        timeout_seconds: Optional[float] = None,
        check: bool = False,
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        stdin: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> ExecResult:
        """Runs one fresh process and waits for its end.

        Args:
            cmd: A line for ``/bin/sh``, or the process' arguments.
            timeout_seconds: Seconds after which it is killed; None for no limit.
            check: Raise `CommandFailed` for an exit code other than 0.
            cwd: Its folder, ``/workspace`` by default.
            env: Environment besides the sandbox's.
            stdin: Text it may read.
            timeout: The same as `timeout_seconds`.

        Raises:
            SandboxTimeout: The limit was reached; ``partial_stdout`` has what was printed.
            CommandFailed: With `check`, the exit code is not 0.
            SandboxFailed: The sandbox's machine ended meanwhile.
            ExecInterrupted: The connection broke.
        """
        process = {**_wire.command(cmd), **_wire.sparse(cwd=cwd, env=dict(env or {}), stdin=stdin)}
        result = self._process(process, _wire.limit(timeout, timeout_seconds))
        return result.raise_for_error(cmd) if check else result

    def exec_stream(
        self,
        cmd: Union[str, Sequence[str]],
        on_stdout: Optional[OnOutput] = None,
        on_stderr: Optional[OnOutput] = None,
        timeout_seconds: Optional[float] = None,
        *,
        check: bool = False,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        stdin: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> StreamedResult:
        """Runs one fresh process and hands its output to functions as it comes.

        A function that raises ends the process. The result, which is also the exit code
        as a number, has the output too: of each stream the first and the last 4 Mi characters.

        Args:
            on_stdout: Called with each piece of the output, never with half a character.
            on_stderr: The same for the error output.

        Raises:
            ExecInterrupted: The stream broke; ``partial_stdout`` has what came until then.
            SandboxTimeout, CommandFailed, SandboxFailed: As `exec`.
        """
        to = {"stdout": on_stdout, "stderr": on_stderr}
        process = {**_wire.command(cmd), **_wire.sparse(cwd=cwd, env=dict(env or {}), stdin=stdin)}
        with self._running(process, _wire.limit(timeout, timeout_seconds)) as parts:
            for part in parts:
                if isinstance(part, StreamedResult):
                    if check:
                        part.raise_for_error(cmd)
                    return part
                notify(to[part.stream], part.text)
        raise AssertionError("the parts end with the result or raise")

    def exec_iter(
        self,
        cmd: Union[str, Sequence[str]],
        timeout_seconds: Optional[float] = None,
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        stdin: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> Iterator[Union[ExecChunk, StreamedResult]]:
        """Runs one fresh process and gives an `ExecChunk` for each piece of its output, last its result.

        Closing the iterator before its end ends the process. Arguments and errors are
        those of `exec_stream`.
        """
        process = {**_wire.command(cmd), **_wire.sparse(cwd=cwd, env=dict(env or {}), stdin=stdin)}
        with self._running(process, _wire.limit(timeout, timeout_seconds)) as parts:
            for part in parts:
                yield part

    def run_code(
        self,
        code: str,
        language: str = "python",
        *,
        timeout: Optional[float] = None,
        check: bool = False,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
    ) -> ExecResult:
        """Runs code in a fresh process: no variables are kept, no results are shown, only text.

        Code of more than 100 KiB is sent by stdin, so that it cannot read any itself.

        Args:
            code: A program.
            language: ``python`` or ``shell``.
            timeout: Seconds after which it is killed; None for no limit.
            check: Raise `CommandFailed` for an exit code other than 0.
            cwd: Its folder, ``/workspace`` by default.
            env: Environment besides the sandbox's.

        Raises:
            ValueError: Another language.
            SandboxTimeout, CommandFailed, SandboxFailed, ExecInterrupted: As `exec`.
        """
        process = {**_wire.one_shot(code, language), **_wire.sparse(cwd=cwd, env=dict(env or {}))}
        result = self._process(process, _wire.limit(timeout, None))
        return result.raise_for_error(f"The {language} code") if check else result

    def _process(self, process: dict[str, Any], seconds: Optional[float]) -> ExecResult:
        body = {**process, **_wire.sparse(timeout_seconds=seconds)}
        try:
            answer = self._transport.json(
                "POST", f"{self._path}/exec", body=body, read_timeout=_wire.patience(seconds)
            )
        except ConnectionError as error:
            raise self._explain(error, "the process") from error
        return ExecResult.from_dict(answer)

    @contextmanager
    def _running(
        self, process: Mapping[str, Any], seconds: Optional[float]
    ) -> Iterator[Iterator[Union[ExecChunk, StreamedResult]]]:
        """The parts of a process' stream; the process ends with the block at the latest."""
        body = {**process, **_wire.sparse(timeout_seconds=seconds)}
        with ExitStack() as stack:
            try:
                opened = self._transport.events("POST", f"{self._path}/exec/stream", body=body)
                events = stack.enter_context(opened)
            except ConnectionError as error:
                raise self._explain(error, "the process") from error
            yield self._parts(events, Output())

    def _parts(
        self, events: Iterator[Event], output: Output
    ) -> Iterator[Union[ExecChunk, StreamedResult]]:
        lost = ConnectionError("The stream ended before the process did.", code="client.connection_lost")
        try:
            for event in events:
                if event.name in ("stdout", "stderr"):
                    yield output.chunk(event)
                elif event.name == "exit":
                    yield output.result(event)
                    return
                elif event.name == "error":
                    raise output.attach(_wire.error_in_stream(event.data))
        except ConnectionError as error:
            lost = error
        raise output.attach(self._explain(lost, "the process")) from lost

    def _explain(self, error: ConnectionError, what: str) -> PandastackError:
        """What to raise when an answer did not come."""
        raise NotImplementedError


class SandboxCommands:
    """``sandbox.commands.run(…)``, another name of ``sandbox.exec(…)``."""

    def __init__(self, sandbox: Processes) -> None:
        self._sandbox = sandbox

    def run(
        self, cmd: Union[str, Sequence[str]], timeout: Optional[float] = None, **options: Any
    ) -> ExecResult:
        """As `Sandbox.exec`."""
        return self._sandbox.exec(cmd, timeout, **options)
