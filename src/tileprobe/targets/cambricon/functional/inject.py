"""Bit errors in stored pages, data and spare area alike.

In: stored pages, the physical number of each, a bit error rate and a seed. The pages are changed in place;
out comes how many bits were flipped. A page's errors depend on the seed and its physical number alone, so
they do not move when pages are visited in another order, and a second read sees the same errors: they are
in the cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.draws import mix
from tileprobe.targets.jit import jit


@dataclass
class Flips:
    """How many bits were flipped where; `spare` includes spare bits that the code leaves unused."""

    data: int = 0
    spare: int = 0

    @property
    def total(self) -> int:
        return self.data + self.spare


@jit
def _inject_page(page, data_bits, state, log_keep):
    """Walks from flip to flip: the gaps between errors of rate p are geometric."""
    data = spare = 0
    bits = page.size * 8
    at = -1.0
    while True:
        state += np.uint64(0x9E3779B97F4A7C15)
        uniform = (np.float64(mix(state) >> np.uint64(11)) + 0.5) * 2.0**-53  # never 0 nor 1
        at += 1.0 + (np.floor(np.log(uniform) / log_keep) if log_keep < 0.0 else 0.0)
        if at >= bits:
            return data, spare
        bit = np.int64(at)
        page[bit >> 3] ^= np.uint8(1 << (bit & 7))
        if bit < data_bits:
            data += 1
        else:
            spare += 1


@jit
def _inject(stored, numbers, data_bits, seed, log_keep):
    data = spare = 0
    for p in range(stored.shape[0]):
        state = mix(np.uint64(seed)) ^ mix(np.uint64(numbers[p]) + np.uint64(0x5851F42D4C957F2D))
        in_data, in_spare = _inject_page(stored[p], data_bits, state, log_keep)
        data += in_data
        spare += in_spare
    return data, spare


def check_rate(rate: float) -> float:
    if not 0.0 <= rate <= 1.0:  # also refuses NaN
        raise TileProbeError(f"a bit error rate of {rate}: expected a number from 0 to 1, such as 1e-4")
    return float(rate)


def inject(stored: np.ndarray, numbers: np.ndarray, page_bytes: int, rate: float, seed: int) -> Flips:
    """Flips each bit of `stored` with probability `rate`; `numbers` are the page numbers of its rows."""
    if check_rate(rate) == 0.0:
        return Flips()
    if seed < 0 or seed >= 2**63:
        raise TileProbeError(f"seed {seed}: expected a whole number from 0 to 2**63 - 1")
    log_keep = math.log1p(-rate) if rate < 1.0 else 0.0  # 0 stands for "flip every bit"
    data, spare = _inject(stored, np.asarray(numbers, np.int64), 8 * page_bytes, seed, log_keep)
    return Flips(int(data), int(spare))
