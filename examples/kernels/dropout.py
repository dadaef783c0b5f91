"""Dropout that stores no mask: the same seed and positions give the same random numbers again.

The reference computes Philox 4x32-10 in NumPy, so the numbers are checked bit by bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import _tensors as T

CASES = (
    {"n": 1000, "p": 0.5, "seed": 123},
    {"n": 4099, "p": 0.1, "seed": 2**33 + 7},
    {"n": 77, "p": 0.9, "seed": 0, "block": 64},
)

M32 = np.uint64(0xFFFFFFFF)


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    x = tl.load(x_ptr + index, mask=inside)
    keep = tl.rand(seed, index) > p
    tl.store(out_ptr + index, tl.where(keep, x / (1 - p), 0.0), mask=inside)


def dropout(x: Any, out: Any, p: float, seed: int, block: int = 1024) -> Any:
    n = x.shape[0]
    dropout_kernel[(triton.cdiv(n, block),)](x, out, n, p, seed, BLOCK=block)
    return out


def philox(seed: int, offset: np.ndarray, rounds: int = 10) -> list[np.ndarray]:
    """The four 32-bit words of Philox 4x32 for a 64-bit key and 32-bit counters."""
    c = [offset.astype(np.uint64) & M32, *(np.zeros_like(offset, np.uint64) for _ in range(3))]
    k0, k1 = np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32 & 0xFFFFFFFF)
    a, b = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
    for _ in range(rounds):
        hi_b, lo_b = b * c[2] >> np.uint64(32), b * c[2] & M32
        hi_a, lo_a = a * c[0] >> np.uint64(32), a * c[0] & M32
        c = [hi_b ^ c[1] ^ k0, lo_b, hi_a ^ c[3] ^ k1, lo_a]
        k0, k1 = k0 + np.uint64(0x9E3779B9) & M32, k1 + np.uint64(0xBB67AE85) & M32
    return [word.astype(np.uint32) for word in c]


def uniform(words: np.ndarray) -> np.ndarray:
    """Random words to float32 in [0, 1), the way Triton does it: the absolute value, scaled below one."""
    signed = words.view(np.int32)
    folded = np.where(signed < 0, -signed - 1, signed)
    return folded.astype(np.float32) * np.float32(4.6566127342e-10)


def reference(x: np.ndarray, p: float, seed: int) -> np.ndarray:
    keep = uniform(philox(seed, np.arange(x.shape[0]))[0]) > np.float32(p)
    return np.where(keep, x / (1 - p), 0.0)


def check(n: int, p: float, seed: int, block: int = 1024) -> float:
    x = T.normal(n, seed=3)
    out = dropout(x, T.empty_like(x), p, seed, block)
    again = dropout(x, T.empty_like(x), p, seed, block)
    assert (T.numpy64(out) == T.numpy64(again)).all(), "dropout: two runs with one seed differ"
    # 1 - p is computed in float32 inside the kernel
    return T.compare("dropout", out, reference(T.numpy64(x), p, seed), "float32", terms=2)
