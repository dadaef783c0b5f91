"""Kernels whose machine code is compared: products (plain, with tensor descriptors, warp-specialised), attention, a
row-wise softmax, and how each is compiled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros([BM, BN], tl.float32)
    for step in range(0, k, BK):
        left = tl.load(a + rows[:, None] * k + step + inner[None, :])
        right = tl.load(b + (step + inner[:, None]) * n + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16))


@triton.jit
def tensor_matmul(
    a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALIZE: tl.constexpr
):
    left = tl.make_tensor_descriptor(a, [m, k], [k, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [n, k], [k, 1], [BN, BK])
    out = tl.make_tensor_descriptor(c, [m, n], [n, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros([BM, BN], tl.float32)
    for step in tl.range(0, k, BK, warp_specialize=SPECIALIZE):
        total = tl.dot(left.load([row, step]), right.load([column, step]).T, total)
    out.store([row, column], total.to(tl.float16))


@triton.jit
def attention(q, k, v, out, n, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    depth = tl.arange(0, D)
    queries = tl.load(q + rows[:, None] * D + depth[None, :])
    total = tl.zeros([BM, D], tl.float32)
    weight = tl.zeros([BM], tl.float32)
    top = tl.full([BM], float("-inf"), tl.float32)
    for column in range(0, n, BN):
        columns = column + tl.arange(0, BN)
        scores = tl.dot(queries, tl.load(k + columns[None, :] * D + depth[:, None])) * scale
        new_top = tl.maximum(top, tl.max(scores, 1))
        p = tl.math.exp2(scores - new_top[:, None])
        shrink = tl.math.exp2(top - new_top)
        weight = weight * shrink + tl.sum(p, 1)
        values = tl.load(v + columns[:, None] * D + depth[None, :])
        total = tl.dot(p.to(tl.float16), values, total * shrink[:, None])
        top = new_top
    tl.store(out + rows[:, None] * D + depth[None, :], (total / weight[:, None]).to(tl.float16))


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=float("-inf"))
    top = tl.exp(row - tl.max(row, 0))
    tl.store(out + tl.program_id(0) * n + i, top / tl.sum(top, 0), mask=i < n)


@triton.jit
def layer_norm(x, weight, bias, out, n, eps, BLOCK: tl.constexpr):
    """Three loops of few records each, two of them with masks."""
    row = tl.program_id(0)
    mean = tl.zeros([BLOCK], tl.float32)
    square = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * n + i, mask=i < n, other=0.0).to(tl.float32)
        mean += value
        square += value * value
    centre = tl.sum(mean) / n
    scale = tl.rsqrt(tl.sum(square) / n - centre * centre + eps)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * n + i, mask=i < n).to(tl.float32)
        value = (value - centre) * scale * tl.load(weight + i, mask=i < n) + tl.load(bias + i, mask=i < n)
        tl.store(out + row * n + i, value, mask=i < n)


@triton.jit
def row_sums(x, out, rows, columns, BLOCK: tl.constexpr):
    """Two loops, one in the other, six records in all; little else."""
    i = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        total = tl.zeros([BLOCK], tl.float32)
        for column in range(0, columns, BLOCK):
            total += tl.load(x + row * columns + column + i)
        tl.store(out + row * BLOCK + i, total)


@triton.jit
def attention_backward(
    q, k, v, grad, lse, delta, dq, dk, dv, n, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    columns = tl.program_id(0) * BN + tl.arange(0, BN)
    depth = tl.arange(0, D)
    keys = tl.load(k + columns[:, None] * D + depth[None, :])
    values = tl.load(v + columns[:, None] * D + depth[None, :])
    key_grad = tl.zeros([BN, D], tl.float32)
    value_grad = tl.zeros([BN, D], tl.float32)
    for row in range(0, n, BM):
        rows = row + tl.arange(0, BM)
        queries = tl.load(q + rows[:, None] * D + depth[None, :])
        out_grad = tl.load(grad + rows[:, None] * D + depth[None, :])
        p = tl.math.exp2(tl.dot(queries, keys.T) * scale - tl.load(lse + rows)[:, None])
        value_grad = tl.dot(p.to(tl.float16).T, out_grad, value_grad)
        ds = p * (tl.dot(out_grad, values.T) - tl.load(delta + rows)[:, None]) * scale
        key_grad = tl.dot(ds.to(tl.float16).T, queries, key_grad)
        tl.atomic_add(dq + rows[:, None] * D + depth[None, :], tl.dot(ds.to(tl.float16), keys))
    tl.store(dk + columns[:, None] * D + depth[None, :], key_grad)
    tl.store(dv + columns[:, None] * D + depth[None, :], value_grad)


@dataclass(frozen=True)
class Kernel:
    """A kernel, the types of its run-time arguments in order, and on which machines it compiles."""

    name: str
    function: Any
    arguments: str
    constants: dict[str, Any]
    machines: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)

    def source(self) -> Any:
        from triton.compiler import ASTSource

        names = [name for name in self.function.arg_names if name not in self.constants]
        kinds = dict(zip(names, self.arguments.split(), strict=True))
        signature = dict.fromkeys(self.function.arg_names, "constexpr") | kinds
        aligned = [n for n, kind in enumerate(signature.values()) if kind[0] == "*" or kind == "i32"]
        return ASTSource(
            self.function, signature, self.constants, {(n,): [["tt.divisibility", 16]] for n in aligned}
        )


_NVIDIA = ("80", "86", "89", "90", "100", "120")
_CDNA = ("gfx942", "gfx950")
_ALL = (*_NVIDIA, *_CDNA, "gfx1100")
_TILE = {"BM": 128, "BN": 128, "BK": 64}
_SMALL = {"BM": 128, "BN": 64, "BK": 32}
_HEADS = {"D": 64, "BM": 128, "BN": 64}
_ATTENTION = "*fp16 *fp16 *fp16 *fp16 i32 fp32"
_PRODUCT = "*fp16 *fp16 *fp16 i32 i32 i32"

KERNELS = (
    Kernel("matmul", matmul, _PRODUCT, _SMALL, _ALL, {"num_warps": 4, "num_stages": 3}),
    Kernel("matmul, TMA", tensor_matmul, _PRODUCT, {**_TILE, "SPECIALIZE": False}, ("90", "100")),
    Kernel("matmul, specialised", tensor_matmul, _PRODUCT, {**_TILE, "SPECIALIZE": True}, ("90", "100")),
    Kernel("attention", attention, _ATTENTION, _HEADS, (*_NVIDIA, *_CDNA)),
    # With four warps of 32 threads it spills 628 bytes by itself there.
    Kernel("attention, 8 warps", attention, _ATTENTION, _HEADS, ("gfx1100",), {"num_warps": 8}),
    Kernel(
        "attention backward",
        attention_backward,
        "*fp16 *fp16 *fp16 *fp16 *fp32 *fp32 *fp32 *fp32 *fp32 i32 fp32",
        {"D": 64, "BM": 32, "BN": 64},
        (*_NVIDIA, *_CDNA),
    ),
    Kernel(
        "layer norm", layer_norm, "*fp16 *fp32 *fp32 *fp16 i32 fp32", {"BLOCK": 1024}, _ALL, {"num_warps": 8}
    ),
    Kernel("nested loops", row_sums, "*fp32 *fp32 i32 i32", {"BLOCK": 128}, _ALL),
    Kernel("softmax", softmax, "*fp32 *fp32 i32", {"BLOCK": 1024}, _ALL),
)
