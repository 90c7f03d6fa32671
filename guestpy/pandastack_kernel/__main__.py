"""Entry point: ``python -m pandastack_kernel --zygote-fd N | -f FILE``."""

from __future__ import annotations

import argparse


def _arguments() -> argparse.Namespace:
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
    return parser.parse_args()


if __name__ == "__main__":
    arguments = _arguments()
    if arguments.connection_file:
        from .front import main as serve

        serve(arguments.connection_file)
    else:
        from .zygote import main

        main(arguments.zygote_fd)
