"""Magics that differ from IPython's because no terminal is there."""

from __future__ import annotations

from subprocess import CalledProcessError
from typing import Any

from IPython.core import magic_arguments
from IPython.core.error import StdinNotImplementedError
from IPython.core.magic import Magics, cell_magic, line_cell_magic, magics_class
from IPython.core.magics.script import ScriptMagics, script_args
from IPython.utils.process import arg_split

from . import processes


@magics_class
class KernelMagics(Magics):
    @line_cell_magic
    def debug(self, line: str = "", cell: str | None = None) -> None:
        """Refused: the debugger reads commands from standard input."""
        raise StdinNotImplementedError(
            "%debug needs a terminal to read commands from, and this session has"
            " none. %tb shows the last traceback; variables can be printed."
        )


@magics_class
class KernelScriptMagics(ScriptMagics):
    """%%script, %%bash and so on: output straight to the session's own pipes."""

    @magic_arguments.magic_arguments()
    @script_args
    @cell_magic("script")
    def shebang(self, line: str, cell: str) -> Any:
        """Run a cell via a shell command; see IPython's %%script."""
        args, command = self.shebang.parser.parse_known_args(arg_split(line))
        if args.out or args.err or args.bg:
            return super().shebang(line, cell)
        try:
            code = processes.run(command, cell.rstrip("\n").encode() + b"\n")
        except FileNotFoundError:
            print(f"Couldn't find program: {command[0]!r}")
            return None
        if code and args.raise_error:
            raise CalledProcessError(code, command)
        return None
