"""Entry point: ``python -m pandastack_kernel --zygote-fd N``."""

from __future__ import annotations

import argparse

from .zygote import main

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="pandastack_kernel")
    parser.add_argument(
        "--zygote-fd",
        type=int,
        required=True,
        help="one end of a Unix stream socketpair: the control channel",
    )
    main(parser.parse_args().zygote_fd)
