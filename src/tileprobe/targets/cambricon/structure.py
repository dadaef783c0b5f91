"""How the portable passes see `cam` IR: a step is a kernel, the layers are its loop, every operator is a
stage.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tileprobe.ir.structure import Lines, Loop, Structure
from tileprobe.targets.cambricon.dialect import (
    AttentionOp,
    ExchangeOp,
    GemvOp,
    LayersOp,
    MachineOp,
    ReturnOp,
    SpecialOp,
    StepOp,
    YieldOp,
)


class CamStructure(Structure):
    """A stage is called after the matrix or function that it is: `q`, `attention`, `layernorm`."""

    def kernels(self, module: ModuleOp) -> list[Operation]:
        return [op for op in module.ops if isinstance(op, StepOp)]

    def loop(self, op: Operation) -> Loop | None:
        return Loop(op.body, trip=op.count.data) if isinstance(op, LayersOp) else None

    def kinds(self, op: Operation) -> tuple[str, ...]:
        if isinstance(op, (GemvOp, SpecialOp)):
            return (op.label.data,)
        if isinstance(op, ExchangeOp):
            return (op.how.data,)
        return ("attention",) if isinstance(op, AttentionOp) else ()

    def lines(self, op: Operation) -> Lines | None:
        return None  # a model has no source lines

    def cost(self, op: Operation) -> float | None:
        return float(op.rows.data * op.cols.data) if isinstance(op, GemvOp) else None

    def is_free(self, op: Operation) -> bool:
        return isinstance(op, (MachineOp, ReturnOp, YieldOp))
