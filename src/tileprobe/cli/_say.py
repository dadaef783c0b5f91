"""What commands say on the standard error: one message, with nothing in it that a terminal would obey."""

from __future__ import annotations

import contextlib
import sys


def say(text: str) -> None:
    from tileprobe.views.text import printable

    shown = "\n".join(printable(line) for line in text.split("\n"))
    with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or not there
        print(f"tileprobe: {shown}", file=sys.stderr, flush=True)
