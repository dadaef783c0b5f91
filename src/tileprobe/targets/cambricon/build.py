"""From a model to IR: the decode (or prefill) step as `cam` ops, its layers as one loop, nothing decided
yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from xdsl.dialects.builtin import IntAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Region, SSAValue

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.attributes import ExpertsAttr, VectorType
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
SOFTMAX_PASSES = 3  # maximum, exponentials and their sum, division
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
    routes: Sequence[Sequence[int]] | None = None,
    in_flash: Sequence[int] | None = None,
    batch: int = 1,
    verify: int = 1,
) -> ModuleOp:
    """The module of one step. In a prefill, `context` is the prompt's length and all its tokens go at
    once. `routes` are the experts that the step meets in each layer (`LayersOp.routes`),
    `in_flash` the tokens of each layer whose keys and values are in flash.
    """
    if context < 0:
        raise TileProbeError(f"the context must be zero tokens or more, found {context}")
    tokens = max(context, 1) if prefill else batch * verify
    body = Block(arg_types=[VectorType.of(model.hidden)])
    x: SSAValue = body.args[0]
    first = 0
    kinds = lambda layer: (*model.kind(layer), in_flash[layer] if in_flash else 0)  # noqa: E731
    for (mixture, window, flash), run in groupby(
        range(model.layers), kinds
    ):  # layers that are alike are one loop
        count = len(list(run))
        own = routes[first : first + count] if routes is not None and mixture else None
        layers = LayersOp.of(count, x, Region(_layer(model, mixture, window, flash)), own)
        body.add_op(layers)
        x, first = layers.out, first + count
    if lm_head:
        norm = _norm(body, model, x)
        _product(body, model.lm_head, norm)
    body.add_op(ReturnOp())
    step = StepOp(
        properties={
            "sym_name": StringAttr(model.name),
            "kind": StringAttr("prefill" if prefill else "decode"),
            "tokens": IntAttr(tokens),
            "sequences": IntAttr(batch),
            "context": IntAttr(context),
            "weights": StringAttr(precision.name),
            "mode": StringAttr(mode),
        },
        regions=[Region(body)],
    )
    return ModuleOp([MachineOp.of(machine), step])


def _layer(model: Model, mixture: bool, window: int, flash: int) -> Block:
    block = Block(arg_types=[VectorType.of(model.hidden)])
    x: SSAValue = block.args[0]
    attend = _latent_attention if model.latent else _attention
    (o,) = _product(block, model.out, attend(block, model, _norm(block, model, x), window, flash))
    o = _norm(block, model, o) if model.post_norms else o
    x = _special(block, "add attention", [x, o], model.hidden)
    down = (_mixture if mixture else _dense)(block, model, _norm(block, model, x))
    down = _norm(block, model, down) if model.post_norms else down
    x = _special(block, "add ffn", [x, down], model.hidden)
    block.add_op(YieldOp(operands=[x]))
    return block


def _latent_attention(block: Block, model: Model, x: SSAValue, window: int, flash: int) -> SSAValue:
    """Queries are taken into the latent space, and results out of it, by each head's own matrices."""
    m, heads = model.latent, model.heads
    assert m is not None
    q, kv = _product(block, model.latent_in, x)
    if m.query_rank:
        q = _special(block, "norm q", [q], m.query_rank, NORM_PASSES)
        (q,) = _product(block, (model.latent_query,), q)
    kv = _special(block, "norm kv", [kv], m.rank + m.rope, NORM_PASSES)
    kv = _special(block, "rope k", [kv], m.rank + m.rope, passes=2)
    nope = _special(block, "rope q", [q], heads * m.nope, passes=2)
    each = ExpertsAttr(IntAttr(heads), IntAttr(heads), IntAttr(2))
    up, out = model.latent_heads
    (q_latent,) = _product(block, (up,), nope, each)
    full = _special(block, "join q", [q_latent, q], heads * (m.rank + m.rope))
    attention = AttentionOp.of([full, kv], heads, 1, m.rank + m.rope, window, flash, m.rank)
    block.add_op(attention)
    return _product(block, (out,), attention.out, each)[0]


def _attention(block: Block, model: Model, x: SSAValue, window: int, flash: int) -> SSAValue:
    q, k, v = _product(block, model.qkv, x)
    if model.qk_norm:
        q = _special(block, "norm q", [q], model.query_size, NORM_PASSES)
        k = _special(block, "norm k", [k], model.kv_size, NORM_PASSES)
    if model.rotary:
        q = _special(block, "rope q", [q], model.query_size, passes=2)
        k = _special(block, "rope k", [k], model.kv_size, passes=2)
    attention = AttentionOp.of([q, k, v], model.heads, model.kv_heads, model.head_dim, window, flash)
    block.add_op(attention)
    return attention.out


def _dense(block: Block, model: Model, x: SSAValue) -> SSAValue:
    wide = _product(block, model.ffn_in, x)
    act = _special(block, model.activation, wide, model.ffn, passes=len(wide))
    return _product(block, model.ffn_out, act)[0]


def _mixture(block: Block, model: Model, x: SSAValue) -> SSAValue:
    """The router, then the chosen experts as one: their activations, weighted, stand behind each other, and the
    products of their last matrices add up.
    """
    experts, active = model.experts, model.experts_per_token
    (scores,) = _product(block, model.router, x)
    # softmax, then one pass for each expert that is chosen
    chosen = _special(block, "top-k", [scores], experts, passes=SOFTMAX_PASSES + active)
    outputs = []
    if model.shared_ffn:
        wide = _product(block, model.shared_in, x)
        act = _special(block, model.activation, wide, model.shared_ffn, passes=2)
        outputs += _product(block, model.shared_out, act)
    wide = _product(block, model.expert_in, x, _experts(model, 0))
    act = _special(block, model.activation, [*wide, chosen], active * model.expert_ffn, passes=3)
    outputs += _product(block, model.expert_out, act, _experts(model, 1))
    return outputs[0] if len(outputs) == 1 else _special(block, "add experts", outputs, model.hidden)


def _experts(model: Model, joined: int) -> ExpertsAttr:
    return ExpertsAttr(IntAttr(model.experts), IntAttr(model.experts_per_token), IntAttr(joined))


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


def _product(
    block: Block, matrices: tuple[Matrix, ...], vector: SSAValue, experts: ExpertsAttr | None = None
) -> list[SSAValue]:
    ops = [GemvOp.of(m.name, vector, m.rows, m.cols, m.bias, experts) for m in matrices]
    block.add_ops(ops)
    return [op.out for op in ops]
