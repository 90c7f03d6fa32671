"""The server's other objects: sandboxes, contexts, processes, files, templates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, TypedDict, Union

from ._fields import Fields
from ._results import Truncation
from .exceptions import CommandFailed


@dataclass(frozen=True)
class Step:
    """One part of a start and the milliseconds it took."""

    name: str
    ms: float

    @classmethod
    def from_dict(cls, data: object) -> Step:
        """Reads the server's JSON."""
        fields = Fields(data, "a step")
        return cls(fields.text("name"), fields.number("ms"))


@dataclass(frozen=True)
class Start:
    """How a sandbox came to life: ``ready`` (was waiting), ``restored`` (from a snapshot) or ``booted``.

    Attributes:
        lost: ``memory`` where it was running before and only its files were left, else "".
    """

    kind: str = ""
    total_ms: float = 0.0
    steps: list[Step] = field(default_factory=list)
    lost: str = ""

    @classmethod
    def from_dict(cls, data: object) -> Start:
        """Reads the server's JSON."""
        fields = Fields(data, "a start")
        return cls(
            fields.text("kind", ""),
            fields.number("total_ms", 0),
            fields.items("steps", Step.from_dict),
            fields.text("lost", ""),
        )


@dataclass
class SandboxInfo:
    """What the server says of a sandbox.

    Attributes:
        status: ``creating``, ``running``, ``paused``, ``hibernated``, ``stopping``, ``failed``, …
        created_at: RFC 3339, UTC.
        ttl_seconds: Seconds of life after creation; 0 until deleted.
        expires_at: RFC 3339, or "" where nothing ends it.
        persistent: True when ``with`` leaves it alive.
        isolation: ``hardware-vm``, ``emulated-vm+jail`` or ``emulated-vm``.
        accelerator: ``kvm`` or ``tcg``.
        start: How it came to life, in milliseconds for each step.
        from_snapshot: Id of the snapshot it was made from, else "".
        fork_parent_id: Id of the sandbox it is a copy of, else "".
        fork_tree_id: Which it has in common with the copies made by the same call, else "".
        failure: Why the status is ``failed``.
    """

    id: str
    template: str = "code-interpreter"
    cpu: int = 1
    memory_mb: int = 0
    status: str = "unknown"
    created_at: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    ttl_seconds: int = 0
    expires_at: str = ""
    persistent: bool = False
    isolation: str = ""
    accelerator: str = ""
    start: Start = field(default_factory=Start)
    boot_ms: int = 0
    boot_mode: str = ""
    from_snapshot: str = ""
    fork_parent_id: str = ""
    fork_tree_id: str = ""
    guest_ip: str = ""
    failure: str = ""


def sandbox_info(data: object, persistent: bool = False) -> SandboxInfo:
    """Reads the server's JSON. `persistent` stands in where the server does not say."""
    fields = Fields(data, "a sandbox")
    return SandboxInfo(
        id=fields.text("id"),
        template=fields.text("template", "code-interpreter"),
        cpu=fields.integer("cpu", 1),
        memory_mb=fields.integer("memory_mb", 0),
        status=fields.text("status", "unknown"),
        created_at=fields.text("created_at", ""),
        metadata=fields.mapping("metadata"),
        ttl_seconds=fields.integer("ttl_seconds", 0),
        expires_at=fields.text("expires_at", ""),
        persistent=fields.flag("persistent", persistent),
        isolation=fields.text("isolation", ""),
        accelerator=fields.text("accelerator", ""),
        start=fields.optional("start", Start.from_dict) or Start(),
        boot_ms=fields.integer("boot_ms", 0),
        boot_mode=fields.text("boot_mode", ""),
        from_snapshot=fields.text("from_snapshot", ""),
        fork_parent_id=fields.text("fork_parent_id", ""),
        fork_tree_id=fields.text("fork_tree_id", ""),
        guest_ip=fields.text("guest_ip", ""),
        failure=fields.text("failure", ""),
    )


@dataclass
class ContextInfo:
    """What the server says of a code context.

    Attributes:
        cwd: The folder it was started in.
        status: ``idle``, ``busy`` or ``dead``.
        execution_count: Cells run so far.
        restarts: How often its variables were lost.
        name: A label that was given to it.
        waiting: Cells that wait behind the running one.
        kernel: The Jupyter kernelspec it runs; empty for PandaStack's own Python kernel.
    """

    id: str
    sandbox_id: str = ""
    language: str = "python"
    cwd: str = ""
    status: str = "idle"
    execution_count: int = 0
    restarts: int = 0
    created_at: str = ""
    name: str = ""
    waiting: int = 0
    kernel: str = ""


def context_info(data: object) -> ContextInfo:
    """Reads the server's JSON."""
    fields = Fields(data, "a context")
    return ContextInfo(
        id=fields.text("id"),
        sandbox_id=fields.text("sandbox_id", ""),
        language=fields.text("language", "python"),
        cwd=fields.text("cwd", ""),
        status=fields.text("status", "idle"),
        execution_count=fields.integer("execution_count", 0),
        restarts=fields.integer("restarts", 0),
        created_at=fields.text("created_at", ""),
        name=fields.text("name", ""),
        waiting=fields.integer("waiting", 0),
        kernel=fields.text("kernel", ""),
    )


@dataclass(frozen=True)
class ExecResult:
    """What a process left.

    Attributes:
        exit_code: 128 + the signal's number when a signal ended it.
        signal: Its name, else "".
        duration_ms: Milliseconds in the sandbox.
        truncated: What was left out because it was too large.
    """

    stdout: str
    stderr: str
    exit_code: int
    duration_ms: float = 0.0
    signal: str = ""
    truncated: Optional[Truncation] = None

    @classmethod
    def from_dict(cls, data: object) -> ExecResult:
        """Reads the server's JSON. An answer without an exit code is an error, not a success."""
        fields = Fields(data, "a process' result")
        return cls(
            stdout=fields.text("stdout", ""),
            stderr=fields.text("stderr", ""),
            exit_code=fields.integer("exit_code"),
            duration_ms=fields.number("duration_ms", 0),
            signal=fields.text("signal", ""),
            truncated=fields.optional("truncated", Truncation.from_dict),
        )

    @property
    def ok(self) -> bool:
        """True for exit code 0."""
        return self.exit_code == 0

    def raise_for_error(self, command: Union[str, Sequence[str]] = "The process") -> ExecResult:
        """Returns the result itself.

        Raises:
            CommandFailed: The exit code is not 0.
        """
        if self.exit_code == 0:
            return self
        line = command if isinstance(command, str) else " ".join(command)
        how = f"was ended by {self.signal}" if self.signal else f"ended with exit code {self.exit_code}"
        last = self.stderr.strip().rpartition("\n")[2]
        raise CommandFailed(
            f"{_shorten(line)} {how}{': ' + _shorten(last) if last else '.'}",
            code="exec.failed",
            exit_code=self.exit_code,
            stdout=self.stdout,
            stderr=self.stderr,
        )


class StreamedResult(ExecResult, int):
    """An `ExecResult` that is also its exit code, as a number: ``if sandbox.exec_stream(…) != 0``."""

    def __new__(cls, code: int = 0, **fields: Any) -> StreamedResult:
        """Makes the number; the fields are set as ever. Copies are made with the number only."""
        return int.__new__(cls, fields.get("exit_code", code))


@dataclass(frozen=True)
class ExecChunk:
    """Some output of a process.

    Attributes:
        stream: ``stdout`` or ``stderr``.
        text: No character is cut in two; what is not UTF-8 is U+FFFD.
    """

    stream: str
    text: str


class Lifecycle(TypedDict):
    """When a sandbox ends by itself.

    ttl_seconds: Seconds of life after creation, or after they were last set; 0 until deleted.
    expires_at: RFC 3339, "" where nothing ends it.
    persistent: ``with`` leaves it alive.
    idle_seconds: Since the last call on its contexts, processes and files; 0 while one is under way.
    idle_timeout_seconds: on_timeout happens when nothing has run in it for so long; 0 never.
    on_timeout: ``kill`` or ``hibernate``, at the end of either time.
    auto_wake: The next call wakes it from hibernation.
    """

    ttl_seconds: int
    expires_at: str
    persistent: bool
    idle_seconds: float
    idle_timeout_seconds: int
    on_timeout: str
    auto_wake: bool


def lifecycle(data: object) -> Lifecycle:
    """Reads the server's JSON."""
    fields = Fields(data, "a lifecycle")
    return {
        "ttl_seconds": fields.integer("ttl_seconds", 0),
        "expires_at": fields.text("expires_at", ""),
        "persistent": fields.flag("persistent", False),
        "idle_seconds": fields.number("idle_seconds", 0),
        "idle_timeout_seconds": fields.integer("idle_timeout_seconds", 0),
        "on_timeout": fields.text("on_timeout", "kill"),
        "auto_wake": fields.flag("auto_wake", True),
    }


def _shorten(line: str, limit: int = 200) -> str:
    line = line.partition("\n")[0]
    return line if len(line) <= limit else line[: limit - 1] + "…"


@dataclass(frozen=True)
class FileInfo:
    """One file in a sandbox.

    Attributes:
        size: Bytes.
        mode: As ``ls`` prints it.
        mtime: Unix seconds.
        link: Where a symbolic link points, else "".
    """

    name: str
    path: str
    is_dir: bool
    size: int = 0
    mode: str = ""
    mtime: int = 0
    link: str = ""

    @classmethod
    def from_dict(cls, data: object) -> FileInfo:
        """Reads the server's JSON."""
        fields = Fields(data, "a file")
        return cls(
            name=fields.text("name"),
            path=fields.text("path"),
            is_dir=fields.flag("is_dir"),
            size=fields.integer("size", 0),
            mode=fields.text("mode", ""),
            mtime=fields.integer("mtime", 0),
            link=fields.text("link", ""),
        )


class FileWritten(TypedDict):
    """What was written where."""

    path: str
    bytes: int


def file_written(data: object) -> FileWritten:
    """Reads the server's JSON."""
    fields = Fields(data, "a written file")
    return {"path": fields.text("path"), "bytes": fields.integer("bytes")}


@dataclass(frozen=True)
class Template:
    """What sandboxes are made from.

    Attributes:
        status: ``not_built``, ``building``, ``ready`` or ``failed``.
        memory_mb: In units of 2**20 bytes.
        size_bytes: Of the disk image.
        packages: What is in it; only `get` has it.
    """

    name: str
    description: str = ""
    status: str = ""
    cpu: int = 1
    memory_mb: int = 0
    size_bytes: int = 0
    digest: str = ""
    built_at: str = ""
    packages: Any = None

    @classmethod
    def from_dict(cls, data: object) -> Template:
        """Reads the server's JSON."""
        fields = Fields(data, "a template")
        return cls(
            name=fields.text("name"),
            description=fields.text("description", ""),
            status=fields.text("status", ""),
            cpu=fields.integer("cpu", 1),
            memory_mb=fields.integer("memory_mb", 0),
            size_bytes=fields.integer("size_bytes", 0),
            digest=fields.text("digest", ""),
            built_at=fields.text("built_at", ""),
            packages=fields.optional("packages", lambda packages: packages),
        )


@dataclass(frozen=True)
class Health:
    """How the server is, and what isolation it gives."""

    status: str
    sandboxes: int = 0
    isolation: str = ""
    accelerator: str = ""

    @classmethod
    def from_dict(cls, data: object) -> Health:
        """Reads the server's JSON."""
        fields = Fields(data, "the health")
        return cls(
            fields.text("status"),
            fields.integer("sandboxes", 0),
            fields.text("isolation", ""),
            fields.text("accelerator", ""),
        )


@dataclass(frozen=True)
class Version:
    """The server's version and what it is built on."""

    version: str
    commit: str = ""
    go: str = ""
    vmm: str = ""

    @classmethod
    def from_dict(cls, data: object) -> Version:
        """Reads the server's JSON."""
        fields = Fields(data, "the version")
        return cls(
            fields.text("version"), fields.text("commit", ""), fields.text("go", ""), fields.text("vmm", "")
        )
