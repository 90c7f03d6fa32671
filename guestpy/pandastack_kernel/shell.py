"""IPython's InteractiveShell with its output sent as messages."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from subprocess import CalledProcessError
from types import TracebackType
from typing import Any

from IPython.core import page
from IPython.core.autocall import ExitAutocall
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell, InteractiveShellABC
from traitlets import Any as AnyTrait
from traitlets import Instance, Type
from traitlets.config import Config

from . import jsonsafe, processes
from .display import KernelDisplayHook, KernelDisplayPublisher
from .history import SessionHistory
from .magics import KernelMagics, KernelScriptMagics
from .stdin import use_ipythons_debugger

_MAX_EVALUE = 1 << 16
# Those that need no event loop of their own.
_GUIS = (None, "inline", "asyncio", "nbagg", "notebook", "webagg", "ipympl", "widget")
_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep

Post = Callable[..., None]


def discard(msg_type: str, content: dict[str, Any], **_: Any) -> None:
    """Where a zygote's messages go; encoding them warms the encoder."""
    jsonsafe.dumps(content)


def print_instead(msg_type: str, content: dict[str, Any], **_: Any) -> None:
    """Where messages go in a process that a cell forked: only the parent answers."""
    if msg_type == "error":
        print("\n".join(content["traceback"]), file=sys.stderr, flush=True)
    elif msg_type in ("display_data", "update_display_data", "execute_result"):
        print(content["data"].get("text/plain", ""), flush=True)


class KernelExit(ExitAutocall):
    """exit and quit: they end the cell, as sys.exit does, not the kernel."""

    def __call__(self, code: Any = None) -> None:
        raise SystemExit(code)


class ZMQInteractiveShell(InteractiveShell):
    """The shell of a kernel.

    It has the name of ipykernel's class because pandas, rich and many others
    look for exactly that name to find out whether rich output is welcome.
    """

    displayhook_class = Type(KernelDisplayHook)
    display_pub_class = Type(KernelDisplayPublisher)
    exiter = Instance(ExitAutocall)
    kernel = AnyTrait(None, allow_none=True)

    post: Post = staticmethod(discard)  # replaced by the kernel
    # Whether the running cell was cancelled by SIGINT.
    cancelled: Callable[[], bool] = staticmethod(lambda: False)
    # Whether this is a process that a cell forked.
    forked: Callable[[], bool] = staticmethod(lambda: False)
    last_error: dict[str, Any] | None = None  # as it was shown
    value_error: dict[str, Any] | None = None  # the one of showing a cell's value
    stdin = AnyTrait(None, allow_none=True)
    # Whether `name?` and the like go into the reply, where Jupyter's clients
    # look for them, or are displayed, which programs see.
    pages_as_payload = False

    def _exiter_default(self) -> ExitAutocall:
        return KernelExit(self)

    def init_history(self) -> None:
        self.history_manager = SessionHistory(shell=self, parent=self)
        self.configurables.append(self.history_manager)

    def init_magics(self) -> None:
        super().init_magics()
        self.register_magics(KernelMagics, KernelScriptMagics)
        self.magics_manager.register_lazy("store", "IPython.extensions.storemagic")

    def init_hooks(self) -> None:
        super().init_hooks()
        self.set_hook("show_in_pager", page.as_hook(self._show_page), 99)
        # The hint is for a terminal; here exit ends the cell only.
        warnings.filterwarnings("ignore", message="To exit: use 'exit'")

    def should_run_async(self, raw_cell: str, **options: Any) -> bool:
        # Spares the second compilation of a cell that cannot await.
        if "await" not in raw_cell and "async" not in raw_cell:
            cell = options.get("transformed_cell") or ""
            if "await" not in cell and "async" not in cell:
                return False
        return bool(super().should_run_async(raw_cell, **options))

    def enable_gui(self, gui: str | None = None) -> None:
        if gui not in _GUIS:
            raise UsageError(f"no display for {gui!r} here: use %matplotlib inline")

    def init_environment(self) -> None:
        """Nobody is there to turn pages for a child process."""
        for name in ("PAGER", "GIT_PAGER"):
            os.environ.setdefault(name, "cat")

    def debugger(self, force: bool = False) -> None:
        """What %debug calls, and each error after %pdb on."""
        if self.stdin.answers():
            super().debugger(force=force)
        else:
            print("No debugger: nobody is there to answer it.", file=sys.stderr)

    def ask_exit(self) -> None:
        raise SystemExit

    def system(self, cmd: str) -> None:
        """Run a shell command; `_exit_code` tells how it ended."""
        shell = os.environ.get("SHELL") or "/bin/sh"
        cmd = self.var_expand(cmd, depth=1)
        code = processes.run(cmd, shell=True, executable=shell)
        self.user_ns["_exit_code"] = code
        if code and self.system_raise_on_error:
            raise CalledProcessError(code, cmd)

    system_piped = system_raw = system

    def set_next_input(self, s: str, replace: bool = False) -> None:
        self.payload_manager.write_payload(
            {"source": "set_next_input", "text": s, "replace": replace}
        )

    def showtraceback(self, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
        etype, value, tb = self._get_exc_info(exc_tuple)
        if isinstance(value, SystemExit) and self.forked():
            return  # there it is no error but the end, as in a script
        if _has_group(value):  # IPython prints these to stderr
            lines = traceback.format_exception(etype, value, tb)
            self._showtraceback(etype, value, lines)
        else:
            super().showtraceback((etype, value, tb), *args, **kwargs)

    def show_usage_error(self, exc: BaseException) -> None:
        self._showtraceback(UsageError, exc, [f"UsageError: {exc}"])

    def _get_exc_info(self, exc_tuple: Any = None) -> Any:
        etype, value, tb = super()._get_exc_info(exc_tuple)
        _leave_out_host(tb)
        if etype.__name__ == "CancelledError" and self.cancelled():
            return KeyboardInterrupt, KeyboardInterrupt().with_traceback(tb), tb
        return etype, value, tb

    def _showtraceback(self, etype: Any, evalue: Any, stb: list[str]) -> None:
        self.last_error = {
            "ename": etype.__name__,
            "evalue": jsonsafe.safe_str(evalue)[:_MAX_EVALUE],
            "traceback": list(stb),
        }
        if self.displayhook._is_active:
            self.value_error = self.last_error
        self.post("error", self.last_error)

    def _format_exception_for_storage(self, *_: Any, **__: Any) -> dict[str, Any]:
        """IPython would format every traceback twice, once for %notebook."""
        return self.last_error or {}

    @contextlib.contextmanager
    def _tee(self, channel: str) -> Iterator[None]:
        """IPython would keep a copy of all output for %notebook."""
        yield

    def _show_page(self, data: Any, start: int = 0, *_: Any, **__: Any) -> None:
        bundle = data if isinstance(data, dict) else {"text/plain": data}
        if isinstance(bundle.get("data"), dict):
            bundle = bundle["data"]
        if self.pages_as_payload:
            page = {"source": "page", "data": bundle, "start": max(0, start)}
            self.payload_manager.write_payload(page)
        else:
            self.display_pub.publish(bundle)


InteractiveShellABC.register(ZMQInteractiveShell)


def _leave_out_host(tb: TracebackType | None) -> None:
    """Let a traceback end where user code called ours: input(), %%bash."""
    last = tb
    while tb is not None:
        if not tb.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            last = tb
        tb = tb.tb_next
    if last is not None:
        last.tb_next = None


def _has_group(value: BaseException | None) -> bool:
    seen: set[int] = set()
    while value is not None and id(value) not in seen:
        if isinstance(value, BaseExceptionGroup):
            return True
        seen.add(id(value))
        value = value.__context__
    return False


def create_shell() -> ZMQInteractiveShell:
    """The one shell of this process, without history file or threads."""
    config = Config()
    config.HistoryManager.enabled = False
    # Its name tells tqdm and others that this is a notebook's kernel.
    config.IPKernelApp.connection_file = ""
    config.IPCompleter.use_jedi = False  # its first answer takes seconds
    shell: ZMQInteractiveShell = ZMQInteractiveShell.instance(config=config)
    use_ipythons_debugger(shell)
    return shell


def forget_session(shell: ZMQInteractiveShell) -> None:
    """Remove what cells left behind, except the modules they imported."""
    attributes = {
        name: value
        for name, value in vars(shell.user_module).items()
        if name in ("__doc__", "__loader__", "__package__", "__spec__")
    }
    shell.reset(new_session=True)
    shell.history_manager.output_hist_reprs.clear()
    shell.user_module.__dict__.update(attributes)
    shell.last_error = None
    shell.payload_manager.clear_payload()
    _forget_sources(shell)


def _forget_sources(shell: ZMQInteractiveShell) -> None:
    for name in [n for n in linecache.cache if n.startswith("<ipython-input-")]:
        del linecache.cache[name]
    getattr(linecache, "_ipython_cache", {}).clear()
    getattr(shell.compile, "_filename_map", {}).clear()
