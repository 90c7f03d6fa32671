"""Entry point: ``python -m pandastack_kernel --zygote-fd N | -f FILE``."""

from __future__ import annotations

import sys

from . import paths


def main(args: list[str]) -> None:
    import argparse

    parser = argparse.ArgumentParser(prog="pandastack_kernel")
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument(
        "--zygote-fd",
        type=int,
        help="one end of a Unix stream socketpair: the control channel",
    )
    way.add_argument(
        "-f", dest="connection_file", help="a Jupyter connection file to serve"
    )
    arguments = parser.parse_args(args)
    if arguments.connection_file:
        from . import front

        front.main(arguments.connection_file)
    else:
        from . import zygote

        zygote.main(arguments.zygote_fd)


if __name__ == "__main__":
    given = sys.argv[1:]
    paths.hide_package()  # before anything else is imported
    main(given)
