"""cam-slice: slice control. Pages that stream to the NPU are cut into slices that fill the bubbles of a
channel.

In comes a mapped step; out goes the step marked `sliced`, its page reads in slices. Without this pass a
page occupies its channel as a whole and read-compute transfers wait behind it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntAttr, ModuleOp, UnitAttr
from xdsl.passes import ModulePass

from tileprobe.targets.cambricon.commands import PageReadOp
from tileprobe.targets.cambricon.dialect import StepOp, find_machine


@dataclass(frozen=True)
class CamSlicePass(ModulePass):
    name = "cam-slice"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        size = find_machine(op).flash.slice_bytes
        for step in (o for o in op.walk() if isinstance(o, StepOp)):
            step.sliced = UnitAttr()
            for read in (o for o in step.walk() if isinstance(o, PageReadOp)):
                read.slice = IntAttr(min(size, read.bytes.data))
