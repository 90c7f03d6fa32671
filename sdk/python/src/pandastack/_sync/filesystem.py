# Generated from _async/filesystem.py by generate_sync.py. Do not edit.
"""A sandbox's files."""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Callable, List, Optional, Tuple, Union

import httpx

from .._fields import Fields
from .._models import FileInfo, FileWritten, file_written
from ..exceptions import PandastackError
from ._io import blocking
from .transport import Transport

_CHUNK = 1 << 20
_ABSENT = ("file.not_found", "file.not_directory")

Progress = Callable[[int, Optional[int]], None]


class SandboxFilesystem:
    """Reads and writes files. A relative path is below ``/workspace``.

    Every method raises `NotFoundError` where the file or the sandbox is missing, and
    `ConflictError` where a folder is named instead of a file or the other way round.
    """

    def __init__(self, transport: Transport, path: str) -> None:
        self._transport = transport
        self._path = f"{path}/fs"

    def read(self, path: str) -> bytes:
        """A whole file in memory; `download` takes large ones."""
        return self._transport.get_bytes(self._path, {"path": path})

    def write(self, path: str, data: Union[bytes, bytearray, memoryview, str]) -> FileWritten:
        """Replaces a file as a whole, text as UTF-8. Missing folders are made."""
        content = data.encode("utf-8") if isinstance(data, str) else bytes(data)

        def body() -> Iterator[bytes]:
            for start in range(0, len(content), _CHUNK):
                yield content[start : start + _CHUNK]

        answer = self._transport.put_bytes(self._path, {"path": path}, body, len(content))
        return file_written(answer)

    def upload(
        self, local: Union[str, os.PathLike[str]], remote: str, progress: Optional[Progress] = None
    ) -> FileWritten:
        """Sends a local file in pieces of 1 MiB, whatever its size.

        A `remote` that ends in ``/`` is the folder to put it in. `progress` is called
        with the bytes sent and the bytes in all (None for a pipe).
        """
        source = Path(local)
        if remote.endswith("/"):
            remote += source.name
        with blocking(lambda: source.open("rb")) as file:
            size = _size(file)

            def body() -> Iterator[bytes]:
                if size is not None:
                    file.seek(0)
                for chunk in _chunks(file, size, progress):
                    yield chunk

            answer = self._transport.put_bytes(self._path, {"path": remote}, body, size)
        return file_written(answer)

    def download(
        self, remote: str, local: Union[str, os.PathLike[str]], progress: Optional[Progress] = None
    ) -> Path:
        """Writes a sandbox's file to `local`, a file or a folder, and gives its path.

        The old content stays until all of the new one has come.
        """
        target = _target(Path(local), remote)
        partial = target.with_name(f".{target.name[:100]}.{uuid.uuid4().hex[:8]}.part")
        try:
            with self._transport.stream(self._path, {"path": remote}) as response:
                _save(response, partial, progress)
            blocking(lambda: partial.replace(target))
        finally:
            partial.unlink(missing_ok=True)
        return target

    def listdir(self, path: str = "/") -> List[FileInfo]:
        """A folder's entries."""
        answer = self._transport.json("GET", f"{self._path}/dir", params={"path": path})
        return Fields(answer, "a folder").items("entries", FileInfo.from_dict)

    def list(self, path: str = "/") -> List[FileInfo]:
        """The same as `listdir`."""
        return self.listdir(path)

    def stat(self, path: str) -> FileInfo:
        """What the sandbox knows of one file."""
        answer = self._transport.json("GET", f"{self._path}/stat", params={"path": path})
        return FileInfo.from_dict(answer)

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder. A missing sandbox is an error, not False."""
        try:
            self.stat(path)
        except PandastackError as error:
            if error.code in _ABSENT:
                return False
            raise
        return True

    def walk(self, path: str = "/") -> Iterator[Tuple[str, List[FileInfo], List[FileInfo]]]:
        """Gives (folder, its folders, its files) from the top down; links are not followed."""
        waiting = [path]
        while waiting:
            folder = waiting.pop()
            entries = self.listdir(folder)
            folders = [entry for entry in entries if entry.is_dir]
            yield folder, folders, [entry for entry in entries if not entry.is_dir]
            waiting.extend(entry.path for entry in reversed(folders) if not entry.link)


def _target(local: Path, remote: str) -> Path:
    return local / PurePosixPath(remote).name if local.is_dir() else local


def _size(file: BinaryIO) -> Optional[int]:
    about = os.fstat(file.fileno())
    return about.st_size if stat.S_ISREG(about.st_mode) else None


def _chunks(file: BinaryIO, size: Optional[int], progress: Optional[Progress]) -> Iterator[bytes]:
    sent = 0
    while size is None or sent < size:
        wanted = _CHUNK if size is None else min(_CHUNK, size - sent)
        chunk = blocking(lambda n=wanted: file.read(n))  # type: ignore[misc]
        if not chunk:
            if size is not None:
                raise OSError(f"{file.name} became shorter while it was sent")
            return
        yield chunk
        sent += len(chunk)
        if progress is not None:
            progress(sent, size)


def _save(response: httpx.Response, partial: Path, progress: Optional[Progress]) -> None:
    length = response.headers.get("content-length", "")
    total = int(length) if length.isdigit() else None
    received = 0
    with blocking(lambda: partial.open("xb")) as file:
        for pieces in _many(response.iter_bytes()):
            blocking(lambda p=pieces: file.writelines(p))  # type: ignore[misc]
            received += sum(map(len, pieces))
            if progress is not None:
                progress(received, total)


def _many(pieces: Iterator[bytes]) -> Iterator[List[bytes]]:
    """Pieces as they come from the network, a chunk's worth at a time; joining them would
    cost as much as to write them."""
    held: List[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= _CHUNK:
            yield held
            held, size = [], 0
    if held:
        yield held
