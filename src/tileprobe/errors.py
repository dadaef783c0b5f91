"""The errors TileProbe raises for mistakes a user can mend.

The command line prints them as one message, without a traceback.
"""

from __future__ import annotations

from traceback import extract_tb


class TileProbeError(Exception):
    """A mistake the user can mend: the message names what was found, what was expected and what to do."""


class UnsupportedError(TileProbeError):
    """A kernel uses something that cannot exist on the chosen target."""


def where(error: Exception) -> str:
    """What was raised, and by which line: the last one, which is the user's own or one it called."""
    frames = extract_tb(error.__traceback__)
    at = f" ({frames[-1].filename}, line {frames[-1].lineno})" if len(frames) > 1 else ""
    return f"{type(error).__name__}: {error}{at}"
