"""cam-shard: the part of a step that one of several packages has when every matrix is split between them.

In comes a step before `cam-tile`; out goes that of one package (all are alike): rows of the matrices that take a whole
vector, and of the columns of those that take what is split, heads and their keys and values with them. The sums of a
matrix whose columns are split are added up over the link (`cam.exchange`), and its input needs a scale that all agree
on.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.attributes import VectorType
from tileprobe.targets.cambricon.dialect import (
    AttentionOp,
    ExchangeOp,
    GemvOp,
    LayersOp,
    ReturnOp,
    SpecialOp,
    StepOp,
    YieldOp,
)

SUM_BYTES = 4  # a sum of integers that is exact for every model here: its parts can be added in any order
SCALE_BYTES = 4
LOGIT_BYTES = 2


@dataclass(frozen=True)
class CamShardPass(ModulePass):
    name = "cam-shard"

    packages: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.packages < 1:
            raise TileProbeError(f"cam-shard: packages must be at least 1, found {self.packages}")
        if self.packages == 1:
            return
        for step in (o for o in op.walk() if isinstance(o, StepOp)):
            body = _Shard(step, self.packages).block(step.body.block)
            step.detach_region(step.body)
            step.add_region(Region(body))


class _Shard:
    def __init__(self, step: StepOp, packages: int) -> None:
        self.n, self.tokens, self.name = packages, step.tokens.data, step.sym_name.data
        self.values: dict[SSAValue, SSAValue] = {}
        self.parts: set[SSAValue] = set()  # vectors of which a package has a part

    def block(self, old: Block) -> Block:
        new = Block(arg_types=[arg.type for arg in old.args])
        self.values |= dict(zip(old.args, new.args))
        for op in old.ops:
            self._op(op, new)
        return new

    def _op(self, op: Operation, block: Block) -> None:
        if isinstance(op, GemvOp):
            made = self._product(op, block)
        elif isinstance(op, SpecialOp):
            made = self._special(op, block)
        elif isinstance(op, AttentionOp):
            made = self._attention(op, block)
        elif isinstance(op, LayersOp):
            inner = LayersOp.of(op.count.data, self.values[op.init], Region(self.block(op.body.block)))
            block.add_op(inner)
            made = inner.out
        elif isinstance(op, YieldOp):
            block.add_op(YieldOp(operands=[self.values[op.value]]))
            return
        elif isinstance(op, ReturnOp):
            block.add_op(ReturnOp())
            return
        else:
            raise TileProbeError(f"cam-shard: {op.name} cannot be split; run it before other passes")
        self.values[op.results[0]] = made

    def _product(self, op: GemvOp, block: Block) -> SSAValue:
        label, rows, cols, bias = op.label.data, op.rows.data, op.cols.data, op.bias is not None
        if op.experts is not None:
            raise TileProbeError(
                f"{self.name}: matrices of experts are not split between packages; use --split pipeline"
            )
        vector = self.values[op.vector]
        if vector in self.parts:
            agreed = ExchangeOp.of("scale", vector, self.n, SCALE_BYTES * self.tokens)
            product = GemvOp.of(label, agreed.out, rows, self._share(cols, f"the columns of {label}"), bias)
            added = ExchangeOp.of("reduce", product.out, self.n, SUM_BYTES * rows * self.tokens)
            block.add_ops([agreed, product, added])
            return added.out
        product = GemvOp.of(label, vector, self._share(rows, f"the rows of {label}"), cols, bias)
        block.add_op(product)
        if isinstance(op.parent_op(), StepOp):  # the output projection: every package needs all of it
            whole = ExchangeOp.of("gather", product.out, self.n, LOGIT_BYTES * rows * self.tokens)
            block.add_op(whole)
            return whole.out
        self.parts.add(product.out)
        return product.out

    def _special(self, op: SpecialOp, block: Block) -> SSAValue:
        inputs = [self.values[value] for value in op.inputs]
        split = [value in self.parts for value in inputs]
        if any(split) and not all(split):
            raise TileProbeError(f"{self.name}: {op.label.data} takes a whole vector and a part of one")
        length = _length(op.out)
        new = SpecialOp.of(
            op.label.data, inputs, self._share(length, op.label.data) if any(split) else length,
            op.passes.data, op.reads.data,
        )  # fmt: skip
        block.add_op(new)
        if any(split):
            self.parts.add(new.out)
        return new.out

    def _attention(self, op: AttentionOp, block: Block) -> SSAValue:
        if op.latent.data or op.flash.data:
            raise TileProbeError(
                f"{self.name}: latent attention, and keys and values in flash, are not split between packages; "
                "use --split pipeline"
            )
        heads = self._share(op.heads.data, "heads"), self._share(op.kv_heads.data, "key and value heads")
        inputs = [self.values[value] for value in op.inputs]
        new = AttentionOp.of(inputs, *heads, op.head_dim.data, op.window.data)
        block.add_op(new)
        self.parts.add(new.out)
        return new.out

    def _share(self, count: int, what: str) -> int:
        if count % self.n:
            raise TileProbeError(
                f"{self.name}: {count} ({what}) cannot be split between {self.n} packages evenly; use another number "
                "or --split pipeline"
            )
        return count // self.n


def _length(value: SSAValue) -> int:
    assert isinstance(value.type, VectorType)
    return value.type.length.data
