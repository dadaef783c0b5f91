"""How the portable passes see the scheduled IR of the CPU: its stages are the ops of the `tile` dialect."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tileprobe.ir.accessors import attr_value, op_name
from tileprobe.ir.amounts import Amount
from tileprobe.ir.flows import Flow
from tileprobe.ir.locations import user_frames
from tileprobe.ir.parts import Frame, Spot
from tileprobe.ir.structure import ScfStructure
from tileprobe.targets.cpu.amounts import amount
from tileprobe.targets.cpu.costs import SCALAR, combine_costs, nest_costs
from tileprobe.targets.cpu.dialect import STAGES, BufferType, DotOp, NestOp
from tileprobe.targets.cpu.flows import flow

UNKNOWN_ROUNDS = 8  # of a loop in a function that is called, where nobody knows how often it goes round
DEEPEST = 8  # calls of calls that are followed


class TileStructure(ScfStructure):
    """Stages know their kinds and lines; scalar loads, stores and atomics between them are stages too."""

    counts = True

    def cost(self, op: Operation) -> float | None:
        if isinstance(op, DotOp):
            a, c = op.a.type, op.c.type
            assert isinstance(a, BufferType)
            assert isinstance(c, BufferType)
            return float(math.prod(c.dims) * a.dims[-1])
        if isinstance(op, NestOp):
            return float(math.prod(op.dims) * max(1, sum(1 for _ in op.body.block.ops) - 1))
        if isinstance(op, STAGES):
            sizes = [math.prod(v.type.dims) for v in op.operands if isinstance(v.type, BufferType)]
            return float(max(sizes, default=1))
        if op_name(op) == "tt.call":
            return None  # whatever the function does
        return 1.0 if self.kinds(op) else None

    def amount(self, op: Operation) -> Amount | None:
        return amount(op)

    def flow(self, op: Operation) -> Flow | None:
        return flow(op)

    def costs(self, op: Operation) -> Mapping[Spot, float]:
        if isinstance(op, NestOp):
            return nest_costs(op)
        frames = user_frames(op.location)
        if not frames or not self.kinds(op):
            return {}
        if op_name(op) == "tt.call":
            return self._called(op, frames, DEEPEST) or {("call", frames): 1.0}
        kind, size = "+".join(self.kinds(op)), self.cost(op) or 1.0
        if op.regions and isinstance(op, STAGES):
            return combine_costs(kind, op.regions[0].block, frames, size)
        return {(kind, frames): (1.0 if isinstance(op, STAGES) else SCALAR) * size}

    def _called(self, call: Operation, around: tuple[Frame, ...], depth: int) -> defaultdict[Spot, float]:
        """What the function costs that is called here (one that Triton did not inline), its lines before the call's."""
        found: defaultdict[Spot, float] = defaultdict(float)
        above = call.parent_op()
        while above is not None and not isinstance(above, ModuleOp):
            above = above.parent_op()
        name = attr_value(call, "callee")
        function = next((f for f in above.ops if attr_value(f, "sym_name") == name), None) if above else None
        for op in function.walk() if function is not None and depth else ():
            if not self.kinds(op) or self._in_stage(op):
                continue
            inner = user_frames(op.location)
            nested = op_name(op) == "tt.call"
            costs = self._called(op, inner, depth - 1) if nested else self.costs(op)
            for (kind, frames), cost in costs.items():
                found[(kind, (*frames, *around))] += cost * self._rounds(op)
        return found

    def _in_stage(self, op: Operation) -> bool:
        above = op.parent_op()
        return above is not None and (bool(self.kinds(above)) or self._in_stage(above))

    def _rounds(self, op: Operation) -> int:
        """How often the loops around an op go round."""
        above = op.parent_op()
        if above is None:
            return 1
        loop = self.loop(above)
        here = 1 if loop is None else UNKNOWN_ROUNDS if loop.trip is None else loop.trip
        return here * self._rounds(above)

    def is_free(self, op: Operation) -> bool:
        return op_name(op) in ("tile.alloc", "tile.view", "tile.table") or super().is_free(op)
