"""Records become intervals here, and intervals a Trace with its file: layout, decoding, replay.

`Trace` and its parts are all a target, a tool or a view needs of this package.
"""

from tileprobe.trace.model import COLUMNS, KINDS, Clock, Kernel, Launch, Losses, Region, Unit
from tileprobe.trace.trace import Trace

__all__ = ["COLUMNS", "KINDS", "Clock", "Kernel", "Launch", "Losses", "Region", "Trace", "Unit"]
