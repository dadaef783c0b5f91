"""Values to bytes and back, and little-endian bit fields inside a byte array.

In: rows of int8 values (of 8 or 4 bits) and rows of stored pages. Out: the same, the other way round.
"""

from __future__ import annotations

import numpy as np

from tileprobe.targets.jit import jit


@jit
def pack(values, value_bits, stored):
    """Writes rows of values into the data areas of pages; two 4-bit values a byte, the first one low."""
    for p in range(values.shape[0]):
        if value_bits == 8:
            for i in range(values.shape[1]):
                stored[p, i] = np.uint8(values[p, i])
        else:
            for i in range(values.shape[1] // 2):
                low, high = np.uint8(values[p, 2 * i]), np.uint8(values[p, 2 * i + 1])
                stored[p, i] = (low & 15) | ((high & 15) << 4)


@jit
def unpack_page(page, value_bits, values):
    if value_bits == 8:
        for i in range(values.size):
            values[i] = np.int8(page[i])
    else:
        for i in range(values.size // 2):
            byte = page[i]
            values[2 * i] = (np.int8(byte << 4)) >> 4
            values[2 * i + 1] = np.int8(byte) >> 4


@jit
def unpack(stored, value_bits, values):
    for p in range(values.shape[0]):
        unpack_page(stored[p], value_bits, values[p])


@jit
def get_bits(area, at, count):
    """`count` bits (at most 48) of `area` from bit `at` on, the first bit lowest."""
    byte = at >> 3
    word = np.uint64(0)
    for k in range(min(7, area.size - byte)):
        word |= np.uint64(area[byte + k]) << np.uint64(8 * k)
    return (word >> np.uint64(at & 7)) & ((np.uint64(1) << np.uint64(count)) - np.uint64(1))


@jit
def put_bits(area, at, count, word):
    """Writes the low `count` bits (at most 48) of `word` into zeroed bits of `area` from bit `at` on."""
    shifted = np.uint64(word) << np.uint64(at & 7)
    byte = at >> 3
    while shifted != 0:
        area[byte] |= np.uint8(shifted & np.uint64(255))
        shifted >>= np.uint64(8)
        byte += 1
