"""Matrix multiplication of numbers that share an exponent: 8-bit or 4-bit floats, one scale per 32 of them.

The formats are those of the OCP microscaling standard: values e4m3, e5m2 or e2m1 (two to a byte), scales e8m0
(a bare exponent, 127 meaning one).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import _tensors as T

CASES = (
    {"m": 32, "n": 64, "k": 128},
    {"m": 64, "n": 32, "k": 64, "kind": "e5m2"},
    {"m": 32, "n": 32, "k": 192, "kind": "e2m1"},
)
GROUP = 32  # values to a scale
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


@triton.jit
def block_scaled_kernel(
    a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, c_ptr, M, N, K,
    KIND: tl.constexpr, PACKED: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K // PACKED)
    groups = tl.arange(0, BLOCK_K // 32)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start // PACKED + ks
        group = start // 32 + groups
        a = tl.load(a_ptr + rows[:, None] * (K // PACKED) + k[None, :])
        b = tl.load(b_ptr + cols[None, :] * (K // PACKED) + k[:, None])
        a_scale = tl.load(a_scale_ptr + rows[:, None] * (K // 32) + group[None, :])
        b_scale = tl.load(b_scale_ptr + cols[:, None] * (K // 32) + group[None, :])
        total = tl.dot_scaled(a, a_scale, KIND, b, b_scale, KIND, total)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], total)


def block_scaled_matmul(a: Any, a_scale: Any, b: Any, b_scale: Any, c: Any, kind: str) -> Any:
    """C = A B^T, both operands (rows, k) bytes with (rows, k / 32) scales."""
    m, n = c.shape
    packed = 2 if kind == "e2m1" else 1
    block_k = 64
    block_scaled_kernel[(m // 32, n // 32)](
        a, a_scale, b, b_scale, c, m, n, a.shape[1] * packed,
        KIND=kind, PACKED=packed, BLOCK_M=32, BLOCK_N=32, BLOCK_K=block_k,
    )  # fmt: skip
    return c


def decode(codes: np.ndarray, kind: str) -> np.ndarray:
    """Bytes to float64; finite codes only."""
    if kind == "e2m1":
        return np.stack([E2M1[codes & 15], E2M1[codes >> 4]], axis=-1).reshape(codes.shape[0], -1)
    mantissa = 3 if kind == "e4m3" else 2
    bias = 7 if kind == "e4m3" else 15
    exponent = (codes & 0x7F) >> mantissa
    fraction = (codes & ((1 << mantissa) - 1)) / (1 << mantissa)
    magnitude = np.where(
        exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (exponent.astype(float) - bias)
    )
    return np.where(codes & 0x80, -magnitude, magnitude)


def reference(codes: np.ndarray, scales: np.ndarray, kind: str) -> np.ndarray:
    """One operand with its scales applied."""
    return decode(codes, kind) * np.repeat(2.0 ** (scales.astype(float) - 127), GROUP, axis=1)


def operand(rows: int, k: int, kind: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    # Below the codes of infinity and NaN, either sign.
    top = {"e4m3": 0x70, "e5m2": 0x60, "e2m1": 0x100}[kind]
    codes = rng.integers(0, top, (rows, k // 2 if kind == "e2m1" else k))
    if kind != "e2m1":
        codes |= rng.integers(0, 2, codes.shape) << 7
    return codes.astype(np.uint8), rng.integers(120, 134, (rows, k // GROUP)).astype(np.uint8)


def check(m: int, n: int, k: int, kind: str = "e4m3") -> float:
    a, a_scale = operand(m, k, kind, 1)
    b, b_scale = operand(n, k, kind, 2)
    tensors = [T.tensor(x, "uint8") for x in (a, a_scale, b, b_scale)]
    c = block_scaled_matmul(*tensors, T.empty_like(T.zeros(m, n)), kind)
    want = reference(a, a_scale, kind) @ reference(b, b_scale, kind).T
    return T.compare(f"block_scaled {kind}", c, want, "float32", terms=k)
