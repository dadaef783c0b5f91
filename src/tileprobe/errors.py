"""The errors TileProbe raises for mistakes a user can mend.

The command line prints them as one message, without a traceback.
"""

from __future__ import annotations


class TileProbeError(Exception):
    """A mistake the user can mend: the message names what was found, what was expected and what to do."""


class UnsupportedError(TileProbeError):
    """A kernel uses something that cannot exist on the chosen target."""
