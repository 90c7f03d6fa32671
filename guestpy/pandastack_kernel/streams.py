"""sys.stdout and sys.stderr as user code sees them."""

from __future__ import annotations

import codecs
import io
from contextlib import suppress
from os import write
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .capture import Capture

NAMES = {1: "stdout", 2: "stderr"}


class OutStream(io.TextIOBase):
    """A text stream that hands writes to a Capture while attached to one.

    Detached, which is the zygote before its fork and every process that user
    code forks, it writes whole lines to its file descriptor.
    """

    encoding = "UTF-8"
    errors = "backslashreplace"
    newlines = None
    line_buffering = False
    write_through = False
    mode = "w"

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._stream = NAMES[fd]
        self._line = ""
        self.name = f"<{NAMES[fd]}>"
        self.capture: Capture | None = None
        self._binary = _BinaryStream(self)

    @property
    def buffer(self) -> _BinaryStream:
        return self._binary

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        capture = self.capture
        if capture is not None:
            capture.write(self._stream, text)
        else:
            self._write_lines(text)
        return len(text)

    def flush(self) -> None:
        if self.capture is not None:
            self.capture.flush()
        else:
            line, self._line = self._line, ""
            self._write_fd(line)

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return False

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def reconfigure(self, **options: Any) -> None:
        """Accepted for programs that ask for UTF-8 or line buffering."""

    def close(self) -> None:
        """Only flushes: a session whose stdout is closed is of no use."""
        self.flush()

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot pickle {self.name}")

    def _write_lines(self, text: str) -> None:
        line, newline, rest = (self._line + text).rpartition("\n")
        self._line = rest
        if newline:
            self._write_fd(line + newline)

    def _write_fd(self, text: str) -> None:
        data = memoryview(text.encode("utf-8", "replace"))
        with suppress(OSError):
            while data:
                data = data[write(self._fd, data) :]


class _BinaryStream(io.BufferedIOBase):
    """sys.stdout.buffer: bytes in order with the text around them."""

    def __init__(self, stream: OutStream) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.name = stream.name
        self.mode = "wb"

    def write(self, data: Any) -> int:
        with memoryview(data) as view:
            size = view.nbytes
            self._stream.write(self._decoder.decode(view.tobytes()))
        return size

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        self.flush()
