"""record-to-ttgir: records become Triton's own GPU IR, with the instructions of the machine inside.

In comes final TTGIR with `record` ops; out goes TTGIR that Triton compiles on. Each stream finds its block in the
program's scratch, and one thread speaks for each of its instances. The place of a record is the frame of the iteration
it lies in plus a constant; frames are carried through loops beside the values of the kernel. Locations of all that is
added name this pass, so that it can be told from the kernel's own instructions in the machine code.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from tileprobe.ir.accessors import attr_value
from tileprobe.ir.blocks import in_order
from tileprobe.ir.layout import Layout
from tileprobe.ir.probe import RegionOp
from tileprobe.ir.record import (
    AgainOp,
    CursorOp,
    EnterOp,
    FlushOp,
    IndexOp,
    NextOp,
    OpenOp,
    PushOp,
    RanOp,
    StoreOp,
    TotalOp,
    TripOp,
)
from tileprobe.targets.gpu.isa import isa_of
from tileprobe.targets.gpu.lower_loops import LowersLoops
from tileprobe.targets.gpu.lower_records import LowersRecords
from tileprobe.targets.gpu.lower_streams import LowersStreams
from tileprobe.targets.gpu.waits import behind_barriers, drop, last_waits


@dataclass(frozen=True)
class RecordToTtgirPass(ModulePass):
    """Turns records into Triton's GPU IR."""

    name = "record-to-ttgir"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        opened = [inner for inner in op.walk() if isinstance(inner, OpenOp)]
        if opened:
            whole = next(inner.layout for inner in opened if inner.layout is not None)
            layout = Layout.from_json(json.loads(whole.data))
            isa = isa_of(str(attr_value(op, "ttg.target")))
            isa.check(layout)
            behind_barriers(op)
            last_waits(op)
            lowering = _Lowering(op, layout, isa)
            for function in op.ops:
                lowering.regions(function)
            drop(lowering.done)
        drop([inner for inner in op.walk() if isinstance(inner, RegionOp)])


@dataclass
class _Lowering(LowersStreams, LowersLoops, LowersRecords):
    """All parts together: every op in its turn."""

    def regions(self, op: Operation) -> None:
        for region in op.regions:
            for block in in_order(region):
                for inner in list(block.ops):
                    self._op(block, inner)
                    self.regions(inner)

    def _op(self, block: Block, op: Operation) -> None:
        for held in [held for held, opened in self.opened.items() if opened.due is op]:
            self.catch_up(block, op, held)
        lower = {
            OpenOp: self.open,
            AgainOp: self.again,
            TripOp: self.trip,
            IndexOp: self.index,
            EnterOp: self.zero,
            CursorOp: self.zero,
            NextOp: self.next,
            RanOp: self.ran,
            TotalOp: self.total,
            StoreOp: self.store,
            PushOp: self.push,
            FlushOp: self.flush,
        }.get(type(op))
        if lower is not None:
            lower(block, op)
        if op.name.startswith("record."):
            self.done.append(op)
