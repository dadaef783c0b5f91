"""What the interpreter refuses to go on with, in words that name the op, its line and the place."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from tileprobe.errors import TileProbeError
from tileprobe.ir.accessors import op_name
from tileprobe.ir.locations import source_location


class InterpretError(TileProbeError):
    """The scheduled IR does something that no correct schedule of a correct kernel does."""


class OutOfBoundsError(InterpretError):
    """An access outside every tensor, or outside a buffer."""


class UnwrittenError(InterpretError):
    """A read of scratch memory that holds nothing of this buffer."""


class OverlapError(InterpretError):
    """A stage writes to the memory it reads from."""


def lines_of(op: Operation) -> str:
    """`kernel.py:41,42`: the op's own line, or those of the stage around it. IR read from text has only these."""
    place = source_location(op)
    if place is not None:
        return f"{place.file}:{place.line}"
    around: Operation | None = op
    while around is not None:
        lines = around.properties.get("lines")
        if isinstance(lines, StringAttr):
            return lines.data
        around = around.parent_op()
    return "unknown line"


def describe(op: Operation) -> str:
    return f"{op_name(op)} ({lines_of(op)})"
