"""How the portable passes see the scheduled IR of the CPU: its stages are the ops of the `tile` dialect."""

from __future__ import annotations

import math

from xdsl.ir import Operation

from tileprobe.ir.accessors import op_name
from tileprobe.ir.structure import ScfStructure
from tileprobe.targets.cpu.dialect import STAGES, BufferType, DotOp, NestOp


class TileStructure(ScfStructure):
    """Stages know their kinds and lines; scalar loads, stores and atomics between them are stages too."""

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

    def is_free(self, op: Operation) -> bool:
        return op_name(op) in ("tile.alloc", "tile.view", "tile.table") or super().is_free(op)
