"""PandaStack: code interpreters, each in its own microVM.

    from pandastack import Sandbox

    with Sandbox.create() as sandbox, sandbox.create_code_context() as ctx:
        print(ctx.run_code("6 * 7").text)

Every class has an asyncio twin whose name begins with ``Async``.
"""

from ._async.client import AsyncClient, get_default_async_client, set_default_async_client
from ._async.context import AsyncCodeContext
from ._async.executions import AsyncExecutionHandle
from ._async.filesystem import AsyncSandboxFilesystem
from ._async.processes import AsyncSandboxCommands
from ._async.sandbox import AsyncSandbox
from ._async.snapshots import AsyncSnapshots
from ._cells import Completion, Dropped, ExecutionEvent, ExecutionInfo, HistoryEntry
from ._chart import Chart, ChartAxes, ChartAxis, ChartBox, ChartSeries
from ._create_retry import CreateRetryEvent
from ._explore import BranchOutcome, Candidate, ExploreResult
from ._models import (
    ExecChunk,
    ExecResult,
    FileInfo,
    FileWritten,
    Health,
    Lifecycle,
    Start,
    Step,
    StreamedResult,
    Template,
    Version,
)
from ._notebook import NotebookProgress, NotebookRun
from ._results import CellError, Execution, InputRequest, Result, TruncatedStream, Truncation
from ._snapshots import Promotion, Snapshot, SnapshotId
from ._sync.client import Client, get_default_client, set_default_client
from ._sync.context import CodeContext
from ._sync.executions import ExecutionHandle
from ._sync.explore import explore
from ._sync.filesystem import SandboxFilesystem
from ._sync.processes import SandboxCommands
from ._sync.sandbox import Sandbox
from ._sync.snapshots import Snapshots
from ._table import Column, Table
from ._text import rendered
from ._version import __version__
from .exceptions import (
    APIConnectionError,
    AuthError,
    BadRequestError,
    CapacityError,
    CellFailed,
    CommandFailed,
    ConflictError,
    ConnectionError,
    CreateCancelled,
    ExecInterrupted,
    ExploreError,
    FieldError,
    NotFoundError,
    NotOfferedError,
    PandastackError,
    SandboxFailed,
    SandboxTimeout,
    ServerError,
    TemplateBuildError,
)

__all__ = [
    "APIConnectionError",
    "AsyncClient",
    "AsyncCodeContext",
    "AsyncExecutionHandle",
    "AsyncSandbox",
    "AsyncSandboxCommands",
    "AsyncSandboxFilesystem",
    "AsyncSnapshots",
    "AuthError",
    "BadRequestError",
    "BranchOutcome",
    "Candidate",
    "CapacityError",
    "CellError",
    "CellFailed",
    "Chart",
    "ChartAxes",
    "ChartAxis",
    "ChartBox",
    "ChartSeries",
    "Client",
    "CodeContext",
    "Column",
    "CommandFailed",
    "Completion",
    "ConflictError",
    "ConnectionError",
    "CreateCancelled",
    "CreateRetryEvent",
    "Dropped",
    "ExecChunk",
    "ExecInterrupted",
    "ExecResult",
    "Execution",
    "ExecutionEvent",
    "ExecutionHandle",
    "ExecutionInfo",
    "ExploreError",
    "ExploreResult",
    "FieldError",
    "FileInfo",
    "FileWritten",
    "Health",
    "HistoryEntry",
    "InputRequest",
    "Lifecycle",
    "NotFoundError",
    "NotOfferedError",
    "NotebookProgress",
    "NotebookRun",
    "PandastackError",
    "Promotion",
    "Result",
    "Sandbox",
    "SandboxCommands",
    "SandboxFailed",
    "SandboxFilesystem",
    "SandboxTimeout",
    "ServerError",
    "Snapshot",
    "SnapshotId",
    "Snapshots",
    "Start",
    "Step",
    "StreamedResult",
    "Table",
    "Template",
    "TemplateBuildError",
    "TruncatedStream",
    "Truncation",
    "Version",
    "__version__",
    "explore",
    "get_default_async_client",
    "get_default_client",
    "rendered",
    "set_default_async_client",
    "set_default_client",
]
