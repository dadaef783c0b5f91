"""sample: says how many iterations of each loop have a place, and whether sampling may change at run time.

In comes any IR; out goes the same with `record.capacity` and `record.dynamic` on its loops, which
`assign-slots` and `probe-to-record` obey.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntAttr, ModuleOp, UnitAttr
from xdsl.passes import ModulePass

from tileprobe.errors import TileProbeError
from tileprobe.ir.registry import structure

CAPACITY = "record.capacity"
DYNAMIC = "record.dynamic"


@dataclass(frozen=True)
class SamplePass(ModulePass):
    """Says how many iterations of each loop have a place.

    `capacity` iterations of a loop are kept, fewer where the trip count is known to be smaller."""

    name = "sample"

    structure: str = "scf"
    capacity: int = 256
    dynamic: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.capacity < 1:
            raise TileProbeError(f"a loop needs room for at least one iteration, not {self.capacity}")
        how = structure(self.structure)
        for kernel in how.kernels(op):
            for inner in kernel.walk():
                loop = how.loop(inner)
                if loop is None:
                    continue
                room = self.capacity if loop.trip is None else min(self.capacity, max(loop.trip, 1))
                inner.attributes[CAPACITY] = IntAttr(room)
                if self.dynamic:
                    inner.attributes[DYNAMIC] = UnitAttr()
