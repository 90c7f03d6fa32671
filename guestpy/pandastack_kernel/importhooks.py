"""Runs a function once a module was imported, now or later.

So a library can be set up for this kernel without being imported for it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

Hook = Callable[[ModuleType], None]


class _Finder(MetaPathFinder):
    def __init__(self) -> None:
        self.hooks: dict[str, list[Hook]] = {}

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        hooks = self.hooks.pop(fullname, None)
        if hooks is None:
            return None
        spec = importlib.util.find_spec(fullname)  # comes here again, hooks gone
        if spec is None or spec.loader is None:
            self.hooks[fullname] = hooks  # not installed yet
            return None
        _run_after_exec(spec, hooks)
        return spec


def _run_after_exec(spec: ModuleSpec, hooks: list[Hook]) -> None:
    loader = spec.loader
    assert loader is not None
    exec_module = loader.exec_module

    def exec_then_hook(module: ModuleType) -> None:
        exec_module(module)
        for hook in hooks:
            _call(hook, module)

    loader.exec_module = exec_then_hook  # type: ignore[method-assign]


def _call(hook: Hook, module: ModuleType) -> None:
    """A library whose inside changed must still be importable."""
    try:
        hook(module)
    except Exception as err:
        print(f"pandastack: cannot set up {module.__name__}: {err!r}", file=sys.stderr)


_finder = _Finder()


def when_imported(name: str, hook: Hook) -> None:
    """Call hook with module `name`, at once if it is imported already."""
    module = sys.modules.get(name)
    if module is not None:
        _call(hook, module)
        return
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _finder.hooks.setdefault(name, []).append(hook)
