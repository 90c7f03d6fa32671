"""Run by a Jupyter kernel of IPython's when it starts, as one of its `exec_files`.

A copy of a sandbox has another host name than the sandbox: before its next cell the
kernel in it draws other numbers.
"""


def _renew_in_copies() -> None:
    import importlib
    import os
    import sys

    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    try:
        seeding = importlib.import_module("pandastack_kernel.seeding").Seeding()
    finally:
        del sys.path[0]
    seeding.install()
    known = os.uname().nodename

    def renew(*_: object) -> None:
        nonlocal known
        if known != (now := os.uname().nodename):
            known = now
            seeding.reseed()

    get_ipython().events.register("pre_run_cell", renew)  # type: ignore[name-defined]  # noqa: F821


_renew_in_copies()
del _renew_in_copies
