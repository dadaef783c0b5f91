"""cam-stage: the layers that one of several packages has when they are split between them.

In comes a step before `cam-tile`; out goes the step with the layers `first` to `end` alone, and what stands outside of
the layers with the last of them (`last=true`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntAttr, ModuleOp
from xdsl.passes import ModulePass

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.dialect import LayersOp, ReturnOp, StepOp


@dataclass(frozen=True)
class CamStagePass(ModulePass):
    name = "cam-stage"

    first: int = 0
    end: int = 1 << 30
    last: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not 0 <= self.first < self.end:
            raise TileProbeError(f"cam-stage: layers {self.first} to {self.end} are none")
        for step in (o for o in op.walk() if isinstance(o, StepOp)):
            before = 0
            for layers in [o for o in step.body.block.ops if isinstance(o, LayersOp)]:
                count = layers.count.data
                low, high = max(self.first - before, 0), min(self.end - before, count)
                before += count
                if low >= high:
                    layers.out.replace_all_uses_with(layers.init)
                    layers.detach()
                    layers.erase()
                    continue
                layers.count = IntAttr(high - low)
                if layers.routes is not None:
                    layers.routes = ArrayAttr(layers.routes.data[low:high])
            if not self.last:
                for op_ in reversed(
                    [o for o in step.body.block.ops if not isinstance(o, (LayersOp, ReturnOp))]
                ):
                    op_.detach()
                    op_.erase()
