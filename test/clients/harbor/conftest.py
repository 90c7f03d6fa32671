"""Fixtures: harbor-firecracker on the server that the environment names.

Harbor itself is an optional part of harbor-firecracker and needs a newer Python
than the rest. Where it is missing, the few names of it that the package uses
have stand-ins: what is tested is what the package says to the server.
"""

from __future__ import annotations

import os
import sys
import types
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from typing import Any

import pytest


class _Environment:
    """Keeps its arguments, as Harbor's base class does."""

    def __init__(self, **options: Any) -> None:
        self.__dict__.update(options)


@dataclass
class _Result:
    stdout: str
    stderr: str
    return_code: int


class _OS(Enum):
    LINUX = "linux"


@dataclass
class _Options:
    allow: bool = False


def _stand_in() -> None:
    names: dict[str, dict[str, Any]] = {
        "harbor": {},
        "harbor.environments": {},
        "harbor.environments.base": {
            "BaseEnvironment": _Environment,
            "ExecResult": _Result,
        },
        "harbor.environments.capabilities": {
            "EnvironmentCapabilities": _Options,
            "EnvironmentResourceCapabilities": _Options,
        },
        "harbor.models": {},
        "harbor.models.task": {},
        "harbor.models.task.config": {
            "EnvironmentConfig": _Environment,
            "NetworkPolicy": _Options,
            "TaskOS": _OS,
        },
        "harbor.models.trial": {},
        "harbor.models.trial.paths": {"TrialPaths": _Environment},
    }
    for name, members in names.items():
        module = types.ModuleType(name)
        module.__dict__.update(members)
        sys.modules[name] = module


if find_spec("harbor") is None:
    _stand_in()


def pytest_configure() -> None:
    for name in ("PANDASTACK_API", "PANDASTACK_API_KEY"):
        if not os.environ.get(name):
            pytest.exit(f"{name} is not set: these tests need a server", returncode=2)
