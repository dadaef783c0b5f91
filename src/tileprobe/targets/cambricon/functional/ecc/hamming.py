"""A plain page code: extended Hamming (single error corrected, double error detected) over words of 16 bytes.

Nine check bits for every 128 data bits: 1152 bytes a page of 16 KB. Over words of 8 bytes, as memories do it,
the check bits (2048 bytes) would not fit the spare area.
"""

from __future__ import annotations

import numpy as np

from tileprobe.targets.cambricon.functional.ecc.base import KEPT, Counts, PageCodec
from tileprobe.targets.cambricon.functional.ecc.packing import get_bits, put_bits, unpack
from tileprobe.targets.jit import jit

WORD_BYTES = 16
SYNDROME_BITS = 8  # 2**8 >= 128 + 8 + 1
CHECK_BITS = SYNDROME_BITS + 1  # and the parity of the whole word


def _positions() -> list[int]:
    """The position in the code of each data bit: every number from 3 on that is no power of two."""
    return [p for p in range(1, 8 * WORD_BYTES + SYNDROME_BITS + 1) if p & (p - 1)]


def _parity(number: int) -> int:
    return number.bit_count() & 1


def _tables() -> tuple[np.ndarray, np.ndarray]:
    """(syndrome and parity of each byte at each place of a word, data bit of each syndrome or -1 or -2)."""
    positions = _positions()
    place = np.zeros((WORD_BYTES, 256), np.uint16)
    for byte in range(WORD_BYTES):
        for value in range(256):
            syndrome = 0
            for bit in range(8):
                if value >> bit & 1:
                    syndrome ^= positions[8 * byte + bit]
            place[byte, value] = syndrome | _parity(value) << SYNDROME_BITS
    data_bit = np.full(2**SYNDROME_BITS, -2, np.int16)  # -2: no single error looks like this
    data_bit[[0, *(1 << k for k in range(SYNDROME_BITS))]] = -1  # -1: a check bit is wrong, the data is right
    data_bit[positions] = np.arange(len(positions))
    return place, data_bit


@jit
def _syndrome(page, word, place):
    out = np.uint16(0)
    for byte in range(WORD_BYTES):
        out ^= place[byte, page[word * WORD_BYTES + byte]]
    return np.int64(out)


@jit
def _ones(number):
    count = 0
    while number:
        number &= number - 1
        count += 1
    return count


@jit
def _encode(stored, page_bytes, place):
    for p in range(stored.shape[0]):
        spare = stored[p, page_bytes:]
        for word in range(page_bytes // WORD_BYTES):
            check = _syndrome(stored[p], word, place)
            parity = (check >> SYNDROME_BITS) ^ (_ones(check & 255) & 1)  # over data and check bits
            put_bits(spare, word * CHECK_BITS, CHECK_BITS, (check & 255) | (parity << SYNDROME_BITS))


@jit
def _correct(stored, page_bytes, place, data_bit):
    """Corrects the data area in place; (bits corrected, words beyond repair)."""
    corrected = beyond = 0
    for p in range(stored.shape[0]):
        spare = stored[p, page_bytes:]
        for word in range(page_bytes // WORD_BYTES):
            found = _syndrome(stored[p], word, place)
            kept = np.int64(get_bits(spare, word * CHECK_BITS, CHECK_BITS))
            syndrome = (found ^ kept) & 255
            odd = ((found >> SYNDROME_BITS) ^ (_ones(kept) & 1)) & 1
            if syndrome == 0 and odd == 0:
                continue
            bit = np.int64(data_bit[syndrome])
            if odd == 0 or bit == -2:
                beyond += 1
                continue
            corrected += 1
            if bit >= 0:
                stored[p, word * WORD_BYTES + (bit >> 3)] ^= np.uint8(1 << (bit & 7))
    return corrected, beyond


class HammingCode(PageCodec):
    name = "hamming"

    def __init__(self, page_bytes: int = 16384, spare_bytes: int = 1664, value_bits: int = 8):
        super().__init__(page_bytes, spare_bytes, value_bits)
        self._place, self._data_bit = _tables()

    @property
    def spare_bits_used(self) -> int:
        return self.page_bytes // WORD_BYTES * CHECK_BITS

    def encode(self, values: np.ndarray) -> np.ndarray:
        stored = self.blank(values)
        _encode(stored, self.page_bytes, self._place)
        return stored

    def decode(self, stored: np.ndarray, fate: np.ndarray | None = None) -> tuple[np.ndarray, Counts]:
        self.check_stored(stored)
        if fate is not None:
            fate[:] = KEPT
        copy = stored.copy()
        corrected, beyond = _correct(copy, self.page_bytes, self._place, self._data_bit)
        values = np.empty((len(stored), self.values_per_page), np.int8)
        unpack(copy, self.value_bits, values)
        return values, Counts(pages=len(stored), bits_corrected=int(corrected), uncorrectable=int(beyond))
