"""merge-probes: moves probes together when only free ops lie between them, so that they share one clock.

In comes instrumented IR; out goes the same with `stop a; constant; start b` turned into `stop a; start b;
constant`. It halves the records of a chain of stages.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from tileprobe.ir.probe import MarkOp, ProbeOp, StartOp, StopOp
from tileprobe.ir.registry import structure
from tileprobe.ir.structure import Structure


@dataclass(frozen=True)
class MergeProbesPass(ModulePass):
    """Moves probes together where only free ops lie between.

    `structure` says which ops are free."""

    name = "merge-probes"

    structure: str = "scf"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        how = structure(self.structure)
        seen: set[Block] = set()
        for probe in [inner for inner in op.walk() if isinstance(inner, ProbeOp)]:
            if probe.parent is not None and probe.parent not in seen:
                seen.add(probe.parent)
                _merge(probe.parent, how)


def _merge(block: Block, how: Structure) -> None:
    before: ProbeOp | None = None  # the probe that only free ops separate from here
    for op in list(block.ops):
        if isinstance(op, (StartOp, StopOp, MarkOp)):
            if before is not None and op.prev_op is not before:
                op.detach()
                block.insert_op_after(op, before)
            before = op
        elif isinstance(op, ProbeOp) or not how.is_free(op):
            before = None
