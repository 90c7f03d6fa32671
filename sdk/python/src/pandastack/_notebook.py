"""Notebooks (nbformat 4): reading them, and what cells leave as their outputs."""

from __future__ import annotations

import copy
import errno
import json
import secrets
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

from ._cells import ExecutionEvent, ExecutionInfo, HistoryEntry
from ._results import CellError, Execution, Result

Path_ = Union[str, Path]


@dataclass(frozen=True)
class NotebookProgress:
    """A code cell that begins (`execution` is None) or has ended. `number` counts from 1."""

    number: int
    total: int
    code: str
    execution: Optional[Execution] = None


@dataclass(frozen=True)
class NotebookRun:
    """A notebook that was run.

    Attributes:
        notebook: The notebook with its new outputs, as JSON.
        executions: One for each code cell that ran, in order.
    """

    notebook: dict[str, Any]
    executions: list[Execution]

    @property
    def error(self) -> Optional[CellError]:
        """Of the first cell that has one and may not: its tag ``raises-exception`` says that it may."""
        ran = zip(cells_to_run(self.notebook), self.executions)
        return next((one.error for cell, one in ran if one.error is not None and not may_fail(cell)), None)

    def save(self, path: Path_) -> Path:
        """Writes the notebook."""
        return write(self.notebook, path)


def read(path: Path_) -> dict[str, Any]:
    """Reads a notebook.

    Raises:
        ValueError: It is no notebook of nbformat 4.
    """
    try:
        notebook: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no notebook: {error}") from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or notebook.get("nbformat") != 4:
        raise ValueError(f"{path} is no notebook of nbformat 4")
    if not all(isinstance(cell, dict) and _is_text(cell.get("source", "")) for cell in cells):
        raise ValueError(f"{path} has a cell that is none")
    return notebook


def _is_text(source: object) -> bool:
    return isinstance(source, str) or (
        isinstance(source, list) and all(isinstance(line, str) for line in source)
    )


def check_folder(path: Path_) -> None:
    """Finds out before hours of work whether a file can be written there."""
    folder = Path(path).resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "There is no such folder to write to", str(folder))


def write(notebook: dict[str, Any], path: Path_) -> Path:
    """Writes a notebook the way Jupyter does: all of it, or the old one stays."""
    text = json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"
    target = Path(path).resolve()  # what a link leads to is replaced, not the link
    partial = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.part")
    try:
        # Half a surrogate pair, which JSON may have, stays the escape that it was.
        partial.write_bytes(text.encode("utf-8", "backslashreplace"))
        if target.exists():
            shutil.copymode(target, partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return Path(path)


def emptied(notebook: dict[str, Any]) -> dict[str, Any]:
    """A copy whose code cells have not run, but those to be skipped."""
    fresh = copy.deepcopy(notebook)
    for cell in fresh["cells"]:
        if cell.get("cell_type") == "code" and not _tagged(cell, "skip-execution"):
            cell["outputs"], cell["execution_count"] = [], None
            cell.setdefault("metadata", {})
    return fresh


def cells_to_run(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The code cells that have code and no tag ``skip-execution``."""
    return [
        cell
        for cell in notebook["cells"]
        if cell.get("cell_type") == "code" and source(cell).strip() and not _tagged(cell, "skip-execution")
    ]


def may_fail(cell: dict[str, Any]) -> bool:
    """Whether a cell's failure is what its author expects."""
    return _tagged(cell, "raises-exception")


def _tagged(cell: dict[str, Any], tag: str) -> bool:
    metadata = cell.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    return isinstance(tags, list) and tag in tags


def source(cell: dict[str, Any]) -> str:
    """A cell's code."""
    text = cell.get("source", "")
    return text if isinstance(text, str) else "".join(text)


def kept(entries: Iterable[HistoryEntry], executions: Iterable[ExecutionInfo]) -> dict[int, ExecutionInfo]:
    """The executions of a history's cells that there still are, by line.

    Executions of a kernel before the one there is have the same counts; the latest is meant. Cells
    without code, which come to no history, have the count of the cell before.
    """
    lines = {entry.line for entry in entries}
    ran = (one for one in executions if one.execution_count in lines and one.code.strip() and not one.comm_id)
    return {one.execution_count: one for one in sorted(ran, key=lambda one: one.ended_at)}


def cell(entry: HistoryEntry, outputs: Optional[list[dict[str, Any]]]) -> dict[str, Any]:
    """A cell that a context ran, with its outputs; None where they are not kept."""
    return {
        "cell_type": "code",
        "execution_count": entry.line,
        "metadata": {"pandastack": {"outputs": "not kept"}} if outputs is None else {},
        "outputs": outputs or [],
        "source": _lines(entry.code),
    }


def of_cells(cells: list[dict[str, Any]], language: str) -> dict[str, Any]:
    """A notebook of cells."""
    name = language or "python"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    if name != "python":
        kernel = {"display_name": name.capitalize(), "language": name, "name": name}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 4}


class Outputs:
    """Makes a cell's outputs of its events, as a notebook's editor does.

    `before` are those of the cell before: an update of a display reaches them too.
    """

    def __init__(self, before: Optional[Outputs] = None) -> None:
        self.items: list[dict[str, Any]] = []
        self._before = before
        self._displays: dict[str, list[dict[str, Any]]] = {}
        self._clear = False

    def add(self, event: ExecutionEvent) -> None:
        """Takes the next event."""
        if event.type == "clear_output":
            self._clear = event.wait
            if not event.wait:
                self._empty()
        elif event.type == "display_update" and event.result is not None:
            self._update(event.result)
        elif event.type in ("stdout", "stderr"):
            self._stream(event.type, event.text)
        elif event.type == "result" and event.result is not None:
            self._show(event.result)
        elif event.type == "error" and event.error is not None:
            self._begin()
            self.items.append(_error(event.error))

    def finished(self, execution: Execution) -> list[dict[str, Any]]:
        """The outputs as nbformat has them."""
        error = execution.error
        if error is not None and not any(item["output_type"] == "error" for item in self.items):
            self.items.append(_error(error))  # Timeout, KernelDied: no kernel said so
        for item in self.items:
            if item["output_type"] == "execute_result":
                item["execution_count"] = execution.execution_count or None
            if item["output_type"] == "stream":
                item["text"] = _lines(item["text"])
        return self.items

    def _update(self, result: Result) -> None:
        cell: Optional[Outputs] = self
        while cell is not None:
            for output in cell._displays.get(result.display_id, []):
                output.update(_bundle(result))
            cell = cell._before

    def _begin(self) -> None:
        if self._clear:
            self._clear = False
            self._empty()

    def _empty(self) -> None:
        self.items.clear()
        self._displays.clear()

    def _stream(self, name: str, text: str) -> None:
        self._begin()
        last = self.items[-1] if self.items else {}
        if last.get("output_type") == "stream" and last["name"] == name:
            last["text"] += text
        else:
            self.items.append({"output_type": "stream", "name": name, "text": text})

    def _show(self, result: Result) -> None:
        self._begin()
        kind = "execute_result" if result.is_main_result else "display_data"
        output = {"output_type": kind, **_bundle(result)}
        self.items.append(output)
        if result.display_id:
            self._displays.setdefault(result.display_id, []).append(output)


def _bundle(result: Result) -> dict[str, Any]:
    data = {mime: _value(mime, value) for mime, value in result.data.items()}
    return {"data": data, "metadata": dict(result.metadata)}


def _value(mime: str, value: Any) -> Any:
    if not isinstance(value, str) or mime == "application/json" or mime.endswith("+json"):
        return value
    textual = mime.startswith("text/") or mime in ("image/svg+xml", "application/javascript")
    return _lines(value) if textual else value


def _error(error: CellError) -> dict[str, Any]:
    return {
        "output_type": "error",
        "ename": error.name,
        "evalue": error.value,
        "traceback": error.traceback.split("\n") if error.traceback else [],
    }


def _lines(text: str) -> list[str]:
    # Only at line feeds, as nbformat does: joined again it is the same text.
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]
