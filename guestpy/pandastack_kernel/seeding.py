"""Fresh randomness for a process that was copied, by fork or by snapshot."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .importhooks import when_imported


class Seeding:
    """Reseeds the global generators, except those that user code seeded."""

    def __init__(self) -> None:
        self._chosen: set[str] = set()  # modules whose state the user chose
        self._originals: dict[str, Callable[..., Any]] = {}

    def install(self) -> None:
        """Watch random and numpy.random for seeding by user code."""
        when_imported("random", self._watch)
        when_imported("numpy.random", self._watch)

    def reseed(self, seed: bytes = b"") -> list[str]:
        """Mix seed and the kernel's randomness into every generator in use.

        Returns the names of those that were reseeded.
        """
        fresh = hashlib.sha512(seed + os.urandom(32)).digest()
        done = []
        for name, reseed in self._originals.items():
            if name not in self._chosen:
                _apply(name, reseed, fresh)
                done.append(name)
        if "ssl" in sys.modules:
            sys.modules["ssl"].RAND_add(fresh, len(fresh))
            done.append("ssl")
        if "tempfile" in sys.modules:  # it names files by a generator of its own
            sys.modules["tempfile"]._name_sequence = None  # type: ignore[attr-defined]
            done.append("tempfile")
        return done

    def _watch(self, module: ModuleType) -> None:
        name = module.__name__
        self._originals[name] = module.seed
        setters = {"random": "setstate", "numpy.random": "set_state"}
        self._note(module, "seed")
        self._note(module, setters[name])

    def _note(self, module: ModuleType, function: str) -> None:
        original = getattr(module, function)

        @functools.wraps(original)
        def noting(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if any(arg is not None for arg in (*args, *kwargs.values())):
                self._chosen.add(module.__name__)
            else:
                self._chosen.discard(module.__name__)
            return result

        setattr(module, function, noting)


def _apply(name: str, reseed: Callable[..., Any], fresh: bytes) -> None:
    if name == "random":
        reseed(fresh)
    else:  # NumPy's takes 32-bit words
        reseed([int.from_bytes(fresh[i : i + 4], "little") for i in range(0, 64, 4)])
