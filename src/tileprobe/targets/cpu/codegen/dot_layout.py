"""How the operands of a dot lie in scratch memory.

One layout covers them all: a matrix cut into panels along one axis. Whoever fills the scratch asks it where
an element goes and how many neighbours may be stored with one vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

_I64 = ir.IntType(64)


@dataclass(frozen=True)
class Panel:
    """A [rows, cols] matrix in panels of `width` elements of `axis`, which is the contiguous one.

    Element (i, j) of a matrix cut along axis 1 lies at ((j // width) * rows + i) * width + j % width, and
    the other way round for axis 0. A width of the whole axis is plain row-major (axis 1) or column-major
    (axis 0). The last panel keeps the full width when the axis is not a multiple of it; the elements missing
    there are never read, so they need no zeros.
    """

    shape: tuple[int, int]
    axis: int
    width: int

    @property
    def run(self) -> int:
        """Elements along the contiguous axis that lie side by side, counted from a multiple of `run`."""
        return self.width

    @property
    def other(self) -> int:
        """Extent of the axis that is not contiguous: rows of `width` elements in one panel."""
        return self.shape[1 - self.axis]

    @property
    def panels(self) -> int:
        return -(-self.shape[self.axis] // self.width)

    @property
    def elems(self) -> int:
        """Elements of scratch the matrix takes, the unused end of the last panel included."""
        return self.panels * self.other * self.width

    def offset(self, indices: Sequence[int]) -> int:
        """Element offset of constant indices."""
        along, across = indices[self.axis], indices[1 - self.axis]
        return (along // self.width * self.other + across) * self.width + along % self.width

    def address(self, builder: ir.IRBuilder, indices: Sequence[Any]) -> Any:
        """Element offset (i64) of run-time i64 indices.

        `lanes` elements along the contiguous axis may be stored at it with one vector when they do not
        cross a multiple of `run`.
        """
        along, across = indices[self.axis], indices[1 - self.axis]
        if self.panels == 1:
            return builder.add(_scale(builder, across, self.width), along)
        panel, inside = _divide(builder, along, self.width)
        row = builder.add(_scale(builder, panel, self.other), across)
        return builder.add(_scale(builder, row, self.width), inside)


def _scale(builder: ir.IRBuilder, value: Any, factor: int) -> Any:
    return value if factor == 1 else builder.mul(value, ir.Constant(_I64, factor))


def _divide(builder: ir.IRBuilder, value: Any, by: int) -> tuple[Any, Any]:
    divisor = ir.Constant(_I64, by)
    return builder.udiv(value, divisor), builder.urem(value, divisor)
