"""The module path by which published programs import the sandbox and what it gives."""

from ._models import ExecResult, FileInfo
from ._results import Execution, Result
from ._sync.client import get_default_client, set_default_client
from ._sync.context import CodeContext
from ._sync.filesystem import SandboxFilesystem
from ._sync.processes import SandboxCommands
from ._sync.sandbox import Sandbox

__all__ = [
    "CodeContext",
    "ExecResult",
    "Execution",
    "FileInfo",
    "Result",
    "Sandbox",
    "SandboxCommands",
    "SandboxFilesystem",
    "get_default_client",
    "set_default_client",
]
