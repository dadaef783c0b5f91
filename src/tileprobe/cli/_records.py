"""`--records NAME=VALUE`: what records are, where the target has a choice."""

from __future__ import annotations

import argparse
from typing import Any


def add_records(group: Any) -> None:
    group.add_argument(
        "--records",
        action="append",
        metavar="NAME=VALUE",
        help="what records are, where the target has a choice: clock_bits=32, granularity=warp, strategy=circular, "
        "buffer=shared, shared_words=2048",
    )


def records_of(args: argparse.Namespace) -> dict[str, str | int]:
    """As they were written; a session checks them."""
    return dict(_pair(text) for text in args.records or ())


def _pair(text: str) -> tuple[str, str]:
    from tileprobe.errors import TileProbeError

    name, equals, value = text.partition("=")
    if not equals or not value:
        raise TileProbeError(f"--records takes NAME=VALUE, such as clock_bits=32, not {text!r}")
    return name, value
