"""What a session finds in sys.path."""

from __future__ import annotations

import os
import site
import sys


def hide_package() -> None:
    """Session code must see neither our import path nor our arguments, and our
    own imports must find nothing in the directory we were started in.

    What is imported stays imported; submodules are found by __path__."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not sys.flags.safe_path:  # the first entry, with -m
        del sys.path[0]
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    others = [e for e in entries if e and os.path.abspath(e) != root]
    if others:
        os.environ["PYTHONPATH"] = os.pathsep.join(others)
    else:
        os.environ.pop("PYTHONPATH", None)
    if len(others) < len(entries) and root in sys.path:
        sys.path.remove(root)
    sys.argv = [""]


def add_working_directory() -> None:
    """Its modules go before those installed, but do not take the place of the
    standard library's."""
    sites = {*site.getsitepackages(), site.getusersitepackages()}
    entries = enumerate(sys.path)
    sys.path.insert(next((i for i, e in entries if e in sites), len(sys.path)), "")
