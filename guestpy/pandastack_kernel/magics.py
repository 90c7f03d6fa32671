"""Magics that differ from IPython's because no terminal is there."""

from __future__ import annotations

import os
from subprocess import CalledProcessError
from typing import Any

from IPython.core import magic_arguments, page
from IPython.core.error import UsageError
from IPython.core.magic import (
    Magics,
    cell_magic,
    line_cell_magic,
    line_magic,
    magics_class,
    needs_local_scope,
)
from IPython.core.magics.code import CodeMagics, MacroToEdit
from IPython.core.magics.script import ScriptMagics, script_args
from IPython.utils import openpy
from IPython.utils.process import arg_split

from . import processes


@magics_class
class KernelMagics(Magics):
    @needs_local_scope
    @line_cell_magic
    def debug(
        self, line: str = "", cell: str | None = None, local_ns: Any = None
    ) -> None:
        """IPython's %debug, where somebody answers it."""
        self.shell.stdin.check_debugger()
        magics = self.shell.magics_manager.registry["ExecutionMagics"]
        magics.debug(line, cell, local_ns)

    @line_magic
    def less(self, line: str) -> None:
        """Show a file, Python with colours."""
        if not line:
            raise UsageError("Missing filename.")
        if line.endswith(".py"):
            source = openpy.read_py_file(line, skip_encoding_cookie=False)
            page.page(self.shell.pycolorize(source))
        else:
            with open(line, encoding="utf-8", errors="replace") as file:
                page.page(file.read())

    more = line_magic("more")(less)

    @line_magic
    def man(self, line: str) -> None:
        """Show the manual page of a command."""
        page.page(self.shell.getoutput(f"man {line} | col -b", split=False))

    @line_magic
    def clear(self, line: str) -> None:
        """What `clear` writes to a terminal."""
        print("\x1b[H\x1b[2J", end="")

    @line_magic
    def edit(self, line: str = "", last_call: list[str] | None = None) -> None:
        """Ask the client, by a payload, to open an editor."""
        options, arguments = self.parse_options(line, "prn:")
        try:
            name, number, _ = CodeMagics._find_edit_target(
                self.shell, arguments, options, last_call or ["", ""]
            )
        except MacroToEdit:
            raise UsageError("a macro cannot be edited here") from None
        where = {"filename": os.path.realpath(name), "line_number": number}
        self.shell.payload_manager.write_payload({"source": "edit_magic", **where})


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
        text = cell.rstrip("\n").encode() + b"\n"
        try:
            code = processes.run(command, text)
        except FileNotFoundError:
            print(f"Couldn't find program: {command[0]!r}")
            return None
        if code and args.raise_error:
            raise CalledProcessError(code, text)
        return None
