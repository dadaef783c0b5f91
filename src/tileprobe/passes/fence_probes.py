"""fence-probes: where a clock is read all that stands in front of it is done, and nothing behind it has begun.

In comes instrumented IR; out goes the same with a `record.fence` in front of each row of probes. A core works ahead:
without fences, the end of what is in front of a region may be counted with it, and its own end with what follows.
Times between fences are those that regions take alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tileprobe.ir.probe import ProbeOp
from tileprobe.ir.record import FenceOp
from tileprobe.ir.registry import structure


@dataclass(frozen=True)
class FenceProbesPass(ModulePass):
    """Nothing that is in front of a probe is still under way behind it."""

    name = "fence-probes"

    structure: str = "scf"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in structure(self.structure).kernels(op):
            for probe in [inner for inner in kernel.walk() if isinstance(inner, ProbeOp)]:
                if isinstance(probe.prev_op, ProbeOp):
                    continue  # one clock may do for the row: they stay side by side
                assert probe.parent is not None
                fence = FenceOp()
                fence.location = probe.location
                probe.parent.insert_op_before(fence, probe)
