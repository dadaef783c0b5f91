"""`schedule`: TTIR, in generic form, becomes stages of the tile dialect."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tileprobe.targets.cpu.schedule.module import schedule


@dataclass(frozen=True)
class SchedulePass(ModulePass):
    """Decide what is kept in buffers, what is recomputed and what runs as one stage."""

    name = "schedule"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        scheduled = schedule(op)
        for old in list(op.body.block.ops):
            old.detach()
            old.erase(safe_erase=False)
        for new in list(scheduled.body.block.ops):
            new.detach()
            op.body.block.add_op(new)
        op.attributes.update(scheduled.attributes)
