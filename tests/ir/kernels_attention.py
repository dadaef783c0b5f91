"""Attention kernels for the tests of the bridge: forward (plain and warp-specialised) and backward."""

import triton
import triton.language as tl
from bridge_stages import Case


@triton.jit
def _inner(
    q,
    k,
    v,
    total,
    weight,
    top,
    start,
    stop,
    rows,
    scale,
    D: tl.constexpr,
    BN: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    """One stretch of keys; masked when CAUSAL."""
    depth = tl.arange(0, D)
    for column in tl.range(start, stop, BN):
        columns = column + tl.arange(0, BN)
        keys = tl.load(k + columns[None, :] * D + depth[:, None])
        scores = tl.dot(q, keys) * scale
        if CAUSAL:
            scores = tl.where(rows[:, None] >= columns[None, :], scores, float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, 1))
        p = tl.math.exp2(scores - new_top[:, None])
        shrink = tl.math.exp2(top - new_top)
        weight = weight * shrink + tl.sum(p, 1)
        values = tl.load(v + columns[:, None] * D + depth[None, :])
        total = tl.dot(p.to(values.dtype), values, total * shrink[:, None])
        top = new_top
    return total, weight, top


@triton.jit
def attention_forward(q, k, v, out, logsum, n, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    head = tl.program_id(1) * n * D
    first = tl.program_id(0) * BM
    rows = first + tl.arange(0, BM)
    depth = tl.arange(0, D)
    queries = tl.load(q + head + rows[:, None] * D + depth[None, :])
    total = tl.zeros([BM, D], tl.float32)
    weight = tl.zeros([BM], tl.float32)
    top = tl.full([BM], float("-inf"), tl.float32)
    total, weight, top = _inner(
        queries, k + head, v + head, total, weight, top, 0, first, rows, scale, D, BN, False
    )
    total, weight, top = _inner(
        queries, k + head, v + head, total, weight, top, first, first + BM, rows, scale, D, BN, True
    )
    tl.store(logsum + tl.program_id(1) * n + rows, top + tl.math.log2(weight))
    tl.store(
        out + head + rows[:, None] * D + depth[None, :], (total / weight[:, None]).to(out.dtype.element_ty)
    )


@triton.jit
def attention_backward(
    q, k, v, dout, logsum, delta, dq, dk, dv, n, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    columns = tl.program_id(0) * BN + tl.arange(0, BN)
    depth = tl.arange(0, D)
    here = columns[:, None] * D + depth[None, :]
    keys = tl.load(k + here)
    values = tl.load(v + here)
    key_gradient = tl.zeros([BN, D], tl.float32)
    value_gradient = tl.zeros([BN, D], tl.float32)
    for row in range(0, n, BM):
        rows = row + tl.arange(0, BM)
        there = rows[:, None] * D + depth[None, :]
        queries = tl.load(q + there)
        upstream = tl.load(dout + there)
        p = tl.math.exp2(tl.dot(queries, tl.trans(keys)) * scale - tl.load(logsum + rows)[:, None])
        p = tl.where(rows[:, None] >= columns[None, :], p, 0.0)
        value_gradient += tl.dot(tl.trans(p.to(tl.float16)), upstream)
        ds = p * (tl.dot(upstream, tl.trans(values)) - tl.load(delta + rows)[:, None]) * scale
        key_gradient += tl.dot(tl.trans(ds.to(tl.float16)), queries)
        tl.atomic_add(dq + there, tl.dot(ds.to(tl.float16), keys))
    tl.store(dk + here, key_gradient.to(tl.float16))
    tl.store(dv + here, value_gradient.to(tl.float16))


@triton.jit
def specialised_attention(q_desc, k_desc, v_desc, out_desc, n, scale):
    BM: tl.constexpr = q_desc.block_shape[0]
    D: tl.constexpr = q_desc.block_shape[1]
    BN: tl.constexpr = k_desc.block_shape[0]
    row = tl.program_id(0) * BM
    queries = q_desc.load([row, 0])
    total = tl.zeros([BM, D], tl.float32)
    weight = tl.zeros([BM], tl.float32)
    top = tl.full([BM], float("-inf"), tl.float32)
    for column in tl.range(0, n, BN, warp_specialize=True, disallow_acc_multi_buffer=True):
        scores = tl.dot(queries, k_desc.load([column, 0]).T) * scale
        new_top = tl.maximum(top, tl.max(scores, 1))
        p = tl.math.exp2(scores - new_top[:, None])
        shrink = tl.math.exp2(top - new_top)
        weight = weight * shrink + tl.sum(p, 1)
        total = tl.dot(p.to(tl.float16), v_desc.load([column, 0]), total * shrink[:, None])
        top = new_top
    out_desc.store([row, 0], (total / weight[:, None]).to(tl.float16))


_BLOCK = "tensordesc<fp16[64,64]>"

CASES = [
    Case(
        attention_forward,
        "*fp16 *fp16 *fp16 *fp16 *fp32 i32 fp32",
        {"D": 64, "BM": 128, "BN": 64},
        {"num_stages": 3},
    ),
    Case(
        attention_forward,
        "*fp32 *fp32 *fp32 *fp32 *fp32 i32 fp32",
        {"D": 32, "BM": 32, "BN": 32},
        {"num_warps": 2},
        label="attention_forward_fp32",
    ),
    Case(
        attention_backward,
        "*fp16 *fp16 *fp16 *fp16 *fp32 *fp32 *fp32 *fp16 *fp16 i32 fp32",
        {"D": 64, "BM": 32, "BN": 64},
    ),
    Case(
        specialised_attention,
        f"{_BLOCK} {_BLOCK} {_BLOCK} {_BLOCK} i32 fp32",
        targets=("sm90", "sm100"),
        specialised=True,
    ),
]
