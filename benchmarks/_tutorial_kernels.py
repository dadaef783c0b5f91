"""Row softmax and attention as Triton's tutorials compute them: what published figures of these were measured with.

The examples' kernels mask every block of keys; these mask the blocks on the diagonal alone, and pipeline their rows.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def rows_kernel(
    out_ptr, in_ptr, in_stride, out_stride, n_rows, n_cols, BLOCK: tl.constexpr, STAGES: tl.constexpr
):
    cols = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0), num_stages=STAGES):
        x = tl.load(in_ptr + row * in_stride + cols, mask=cols < n_cols, other=-float("inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * out_stride + cols, e / tl.sum(e, axis=0), mask=cols < n_cols)


@triton.jit
def _walk(
    out, total, best, q, k_ptrs, v_ptrs, rows, first, last, scale,
    MASKED: tl.constexpr, DIM: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Blocks of keys from `first` to `last`."""
    for start in tl.range(first, last, BLOCK_N):
        k = tl.load(k_ptrs + start * DIM)
        s = tl.dot(q, k) * scale
        if MASKED:
            seen = rows[:, None] >= (start + tl.arange(0, BLOCK_N))[None, :]
            s = tl.where(seen, s, -1.0e6)
        new = tl.maximum(best, tl.max(s, 1))
        p = tl.math.exp2(s - new[:, None])
        shrink = tl.math.exp2(best - new)
        out = out * shrink[:, None]
        v = tl.load(v_ptrs + start * DIM)
        out = tl.dot(p.to(tl.float16), v, out)
        total = total * shrink + tl.sum(p, 1)
        best = new
    return out, total, best


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, length, scale,
    DIM: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Lengths are multiples of the blocks. `scale` is in powers of two."""
    start = tl.program_id(0) * BLOCK_M
    origin = tl.program_id(1).to(tl.int64) * length * DIM
    rows, cols, dims = start + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, DIM)
    k_ptrs = k_ptr + origin + dims[:, None] + cols[None, :] * DIM
    v_ptrs = v_ptr + origin + cols[:, None] * DIM + dims[None, :]
    q = tl.load(q_ptr + origin + rows[:, None] * DIM + dims[None, :])
    best = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.full((BLOCK_M,), 1.0, tl.float32)
    out = tl.zeros((BLOCK_M, DIM), tl.float32)
    full = start if CAUSAL else length
    out, total, best = _walk(out, total, best, q, k_ptrs, v_ptrs, rows, 0, full, scale, False, DIM, BLOCK_N)
    if CAUSAL:
        out, total, best = _walk(
            out, total, best, q, k_ptrs, v_ptrs, rows, start, start + BLOCK_M, scale, True, DIM, BLOCK_N
        )
    tl.store(lse_ptr + tl.program_id(1) * length + rows, best + tl.math.log2(total))
    out = out / total[:, None]
    tl.store(out_ptr + origin + rows[:, None] * DIM + dims[None, :], out.to(tl.float16))
