"""IPython's display hook and publisher, as Jupyter messages."""

from __future__ import annotations

import base64
import contextlib
import threading
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

Hook = Callable[[dict[str, Any]], dict[str, Any] | None]

_MAX_REMEMBERED = 1 << 16  # characters of a repr that %history -o keeps


def encoded(data: dict[str, Any]) -> dict[str, Any]:
    """Binary payloads as base64."""
    return {
        mime: base64.b64encode(value).decode("ascii")
        if isinstance(value, (bytes, bytearray))
        else value
        for mime, value in data.items()
    }


class KernelDisplayHook(DisplayHook):
    """The value of a cell: execute_result."""

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(
        self, format_dict: dict[str, Any], md_dict: dict[str, Any] | None = None
    ) -> None:
        content = {
            "execution_count": self.prompt_count,
            "data": encoded(format_dict),
            "metadata": md_dict or {},
        }
        self.shell.post("execute_result", content)

    def log_output(self, format_dict: dict[str, Any]) -> None:
        """Remember short texts only: a session must not keep every image."""
        text = format_dict.get("text/plain")
        if isinstance(text, str) and len(text) <= _MAX_REMEMBERED:
            self.shell.history_manager.output_hist_reprs[self.prompt_count] = text

    def finish_displayhook(self) -> None:
        self._is_active = False


class KernelDisplayPublisher(DisplayPublisher):
    """display() and its kin: display_data, update_display_data, clear_output."""

    _of_thread = threading.local()

    def publish(
        self,
        data: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        *args: Any,
        transient: dict[str, Any] | None = None,
        update: bool = False,
        **kwargs: Any,
    ) -> None:
        self._validate_data(data, metadata)
        content = {
            "data": encoded(data),
            "metadata": metadata or {},
            "transient": transient or {},
        }
        self._post("update_display_data" if update else "display_data", content)

    def clear_output(self, wait: bool = False) -> None:
        self._post("clear_output", {"wait": wait})

    def register_hook(self, hook: Hook) -> None:
        """Let hook see and change what this thread displays, as in ipykernel.

        It takes a message and returns one, or None if nothing is to be sent.
        """
        self._hooks().append(hook)

    def unregister_hook(self, hook: Hook) -> bool:
        with contextlib.suppress(ValueError):
            self._hooks().remove(hook)
            return True
        return False

    def _hooks(self) -> list[Hook]:
        hooks: list[Hook] = self._of_thread.__dict__.setdefault("hooks", [])
        return hooks

    def _post(self, msg_type: str, content: dict[str, Any]) -> None:
        message: dict[str, Any] = {
            "header": {"msg_type": msg_type},
            "msg_type": msg_type,
            "content": content,
        }
        for hook in self._hooks():
            changed = hook(message)
            if changed is None:
                return
            message = changed
        self.shell.post(message["msg_type"], message["content"])


def add_format(
    shell: InteractiveShell,
    mime: str,
    classes: Mapping[tuple[str, str], Callable[[Any], Any]],
) -> None:
    """Show objects of classes, each a module and a name, with one more MIME type.

    So their library is imported by whom it serves. What describes an object may
    fail, or return None, where it is not quite what its class says: the rest is shown.
    """
    formatter = shell.display_formatter.mimebundle_formatter
    for (module, name), describe in classes.items():
        formatter.for_type_by_name(module, name, partial(_bundle, mime, describe))


def _bundle(mime: str, describe: Callable[[Any], Any], value: Any) -> Any:
    """The MIME bundle's part that we make, with that of a subclass."""
    own = getattr(value, "_repr_mimebundle_", None)
    bundle = own() if own is not None else None
    data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
    described = quietly(describe, value)
    return ({mime: described, **data} if described is not None else data), metadata


def quietly(describe: Callable[[Any], Any], value: Any) -> Any:
    """What describe says of value; None, and not a word, where that fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return describe(value)
    except BaseException as err:
        # A panic in Rust, as of polars, is no Exception.
        if isinstance(err, Exception) or type(err).__name__ == "PanicException":
            return None
        raise
