"""From a model to IR: the decode (or prefill) step as `cam` ops, its layers as one loop, nothing decided
yet.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Region, SSAValue

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.attributes import VectorType
from tileprobe.targets.cambricon.dialect import (
    AttentionOp,
    GemvOp,
    LayersOp,
    MachineOp,
    ReturnOp,
    SpecialOp,
    StepOp,
    YieldOp,
)
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.model import Matrix, Model
from tileprobe.targets.cambricon.pagemap import SPLIT
from tileprobe.targets.cambricon.precision import Precision

# Passes over a vector that a special function makes (read, reduce, write): counted from its definition.
NORM_PASSES = 3  # mean and variance, normalise, scale and quantise
GAIN_BYTES = 2  # gains and biases stay in 16 bits


def build_step(
    model: Model,
    machine: Machine,
    precision: Precision,
    context: int,
    mode: str = SPLIT,
    lm_head: bool = False,
    prefill: bool = False,
) -> ModuleOp:
    """The module of one step. In a prefill, `context` is the prompt's length and all its tokens go at
    once.
    """
    if context < 0:
        raise TileProbeError(f"the context must be zero tokens or more, found {context}")
    tokens = max(context, 1) if prefill else 1
    body = Block(arg_types=[VectorType.of(model.hidden)])
    layer = _layer(model)
    layers = LayersOp.of(model.layers, body.args[0], Region(layer))
    body.add_op(layers)
    if lm_head:
        norm = _norm(body, model, layers.out)
        _product(body, model.lm_head, norm)
    body.add_op(ReturnOp())
    step = StepOp(
        properties={
            "sym_name": StringAttr(model.name),
            "kind": StringAttr("prefill" if prefill else "decode"),
            "tokens": IntAttr(tokens),
            "context": IntAttr(context),
            "weights": StringAttr(precision.name),
            "mode": StringAttr(mode),
        },
        regions=[Region(body)],
    )
    return ModuleOp([MachineOp.of(machine), step])


def _layer(model: Model) -> Block:
    block = Block(arg_types=[VectorType.of(model.hidden)])
    x: SSAValue = block.args[0]
    q, k, v = _product(block, model.qkv, _norm(block, model, x))
    if model.rotary:
        q = _special(block, "rope q", [q], model.query_size, passes=2)
        k = _special(block, "rope k", [k], model.kv_size, passes=2)
    attention = AttentionOp.of([q, k, v], model.heads, model.kv_heads, model.head_dim)
    block.add_op(attention)
    (o,) = _product(block, model.out, attention.out)
    x = _special(block, "add attention", [x, o], model.hidden)
    wide = _product(block, model.ffn_in, _norm(block, model, x))
    act = _special(block, model.activation, wide, model.ffn, passes=len(wide))
    (down,) = _product(block, model.ffn_out, act)
    x = _special(block, "add ffn", [x, down], model.hidden)
    block.add_op(YieldOp(operands=[x]))
    return block


def _norm(block: Block, model: Model, x: SSAValue) -> SSAValue:
    layernorm = model.family == "opt"
    gains = model.hidden * GAIN_BYTES * (2 if layernorm else 1)
    return _special(block, "layernorm" if layernorm else "rmsnorm", [x], model.hidden, NORM_PASSES, gains)


def _special(
    block: Block, label: str, inputs: list[SSAValue], length: int, passes: int = 1, reads: int = 0
) -> SSAValue:
    op = SpecialOp.of(label, inputs, length, passes, reads)
    block.add_op(op)
    return op.out


def _product(block: Block, matrices: tuple[Matrix, ...], vector: SSAValue) -> list[SSAValue]:
    ops = [GemvOp.of(m.name, vector, m.rows, m.cols, m.bias) for m in matrices]
    block.add_ops(ops)
    return [op.out for op in ops]
