"""A plain page code as NAND controllers use it: binary BCH over sectors of 1 KB.

A sector's remainder is recomputed and compared with the stored one; their difference gives the syndromes,
from which Berlekamp and Massey's algorithm finds the error locator, and a search finds its roots. By
default `t`, the errors corrected a sector, is the largest whose check bits cost no more spare area than the
paper's own code.
"""

from __future__ import annotations

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.functional.ecc import galois
from tileprobe.targets.cambricon.functional.ecc.base import KEPT, Counts, PageCodec
from tileprobe.targets.cambricon.functional.ecc.outlier import OutlierCode
from tileprobe.targets.cambricon.functional.ecc.packing import get_bits, unpack
from tileprobe.targets.cambricon.functional.ecc.roots import find_positions, make_work, times
from tileprobe.targets.jit import jit

SECTOR_BYTES = 1024


@jit
def _row(top, place, byte, words):
    """Where the table's row for one byte of the step begins; unsigned, which saves checks for negatives."""
    mixed = ((top >> np.uint64(56 - 8 * place)) & np.uint64(255)) ^ np.uint64(byte)
    return (np.uint64(256 * place) + mixed) * np.uint64(words)


@jit
def _remainder(data, start, count, table, register):
    """The remainder of `count` bytes times x**degree, eight bytes a step; no views in the loop."""
    words = register.size - 1  # one more word, always zero, to shift in
    register[:] = 0
    for at in range(start, start + count, 8):
        top = register[0]
        r0, r1 = _row(top, 0, data[at], words), _row(top, 1, data[at + 1], words)
        r2, r3 = _row(top, 2, data[at + 2], words), _row(top, 3, data[at + 3], words)
        r4, r5 = _row(top, 4, data[at + 4], words), _row(top, 5, data[at + 5], words)
        r6, r7 = _row(top, 6, data[at + 6], words), _row(top, 7, data[at + 7], words)
        for word in range(words):
            w = np.uint64(word)
            register[w] = (
                register[w + np.uint64(1)] ^ table[r0 + w] ^ table[r1 + w] ^ table[r2 + w] ^ table[r3 + w]
                ^ table[r4 + w] ^ table[r5 + w] ^ table[r6 + w] ^ table[r7 + w]
            )  # fmt: skip


@jit
def _bit(register, index):
    return (register[index >> 6] >> np.uint64(63 - (index & 63))) & np.uint64(1)


@jit
def _store(register, spare, at, degree):
    for index in range(degree):
        spare[(at + index) >> 3] |= np.uint8(_bit(register, index) << np.uint64((at + index) & 7))


@jit
def _difference(register, spare, at, degree):
    """Xors the stored remainder into the register; whether anything is left."""
    left = np.uint64(0)
    for w in range(register.size - 1):
        word = np.uint64(0)
        for k in range(0, min(64, degree - 64 * w), 32):  # the first bit of the area is the highest power
            count = min(32, degree - 64 * w - k)
            bits = get_bits(spare, at + 64 * w + k, count)
            word |= _reverse32(bits) << np.uint64(32 - k)
        register[w] ^= word
        left |= register[w]
    return left != 0


@jit
def _reverse32(word):
    word = ((word >> np.uint64(1)) & np.uint64(0x55555555)) | ((word & np.uint64(0x55555555)) << np.uint64(1))
    word = ((word >> np.uint64(2)) & np.uint64(0x33333333)) | ((word & np.uint64(0x33333333)) << np.uint64(2))
    word = ((word >> np.uint64(4)) & np.uint64(0x0F0F0F0F)) | ((word & np.uint64(0x0F0F0F0F)) << np.uint64(4))
    word = ((word >> np.uint64(8)) & np.uint64(0x00FF00FF)) | ((word & np.uint64(0x00FF00FF)) << np.uint64(8))
    return ((word >> np.uint64(16)) | (word << np.uint64(16))) & np.uint64(0xFFFFFFFF)


@jit
def _syndromes(register, table, syndromes):
    """All 2t syndromes: the odd ones by table, the even ones by S[2k] = S[k]**2 in `_square_even`."""
    t = table.shape[2]
    odd = np.zeros(t, np.uint16)
    for w in range(register.size - 1):
        word = register[w]
        for n in range(16):
            nibble = (word >> np.uint64(60 - 4 * n)) & np.uint64(15)
            if nibble:
                row = table[16 * w + n, nibble]
                for k in range(t):
                    odd[k] ^= row[k]
    for k in range(t):
        syndromes[2 * k + 1] = odd[k]


@jit
def _square_even(syndromes, exp, log):
    for k in range(1, syndromes.size // 2):
        value = syndromes[k]
        syndromes[2 * k] = exp[2 * log[value]] if value else 0


@jit
def _locator(syndromes, t, exp, log, period, locator, previous, scratch):
    """Berlekamp and Massey, binary: every second discrepancy is zero. The locator's degree, or -1."""
    locator[:] = 0
    previous[:] = 0
    locator[0] = previous[0] = 1
    degree, before, gap, last = 0, 0, 1, np.uint16(1)  # `before` is the degree of `previous`
    for step in range(0, 2 * t, 2):
        discrepancy = syndromes[step + 1]
        for k in range(1, degree + 1):
            discrepancy ^= times(locator[k], syndromes[step + 1 - k], exp, log)
        if discrepancy == 0:
            gap += 2
            continue
        factor = exp[log[discrepancy] + period - log[last]]
        grows = 2 * degree <= step
        if grows:
            scratch[:] = locator
        for k in range(min(before, t - gap) + 1):
            locator[gap + k] ^= times(factor, previous[k], exp, log)
        if not grows:
            gap += 2
            continue
        before, degree = degree, step + 1 - degree
        if degree > t:
            return -1
        previous[:] = scratch
        last, gap = discrepancy, 2
    return degree


@jit
def _encode(stored, page_bytes, sector_bytes, degree, table):
    register = np.zeros(-(-degree // 64) + 1, np.uint64)
    for p in range(stored.shape[0]):
        for sector in range(page_bytes // sector_bytes):
            _remainder(stored[p], sector * sector_bytes, sector_bytes, table, register)
            _store(register, stored[p, page_bytes:], sector * degree, degree)


@jit
def _correct(stored, page_bytes, sector_bytes, degree, t, m, table, syndrome_table, field):
    """Corrects the data area in place; (bits corrected, sectors beyond repair)."""
    exp, log, _, period = field
    register = np.zeros(-(-degree // 64) + 1, np.uint64)
    syndromes = np.zeros(2 * t + 1, np.uint16)
    locator, previous, scratch = (
        np.zeros(t + 1, np.uint16),
        np.zeros(t + 1, np.uint16),
        np.zeros(t + 1, np.uint16),
    )
    positions, work = np.zeros(t + 2, np.int64), make_work(t, m)
    length = 8 * sector_bytes + degree
    corrected = beyond = 0
    for p in range(stored.shape[0]):
        for sector in range(page_bytes // sector_bytes):
            start = sector * sector_bytes
            _remainder(stored[p], start, sector_bytes, table, register)
            if not _difference(register, stored[p, page_bytes:], sector * degree, degree):
                continue
            _syndromes(register, syndrome_table, syndromes)
            _square_even(syndromes, exp, log)
            errors = _locator(syndromes, t, exp, log, period, locator, previous, scratch)
            if errors < 1 or find_positions(locator, errors, field, work, positions) != errors:
                beyond += 1
                continue
            if positions[:errors].max() >= length:  # an error where the shortened code has no bit
                beyond += 1
                continue
            corrected += errors
            for k in range(errors):
                bit = length - 1 - positions[k]  # the highest power is the first bit
                if bit < 8 * sector_bytes:
                    stored[p, start + (bit >> 3)] ^= np.uint8(128 >> (bit & 7))
    return corrected, beyond


class BchCode(PageCodec):
    name = "bch"

    def __init__(
        self, page_bytes: int = 16384, spare_bytes: int = 1664, value_bits: int = 8, t: int | None = None
    ):
        self.sector_bytes = min(SECTOR_BYTES, page_bytes)
        if page_bytes % self.sector_bytes:
            raise TileProbeError(
                f"a page of {page_bytes} bytes: the bch code needs a multiple of {SECTOR_BYTES}"
            )
        self.m = max(9, (8 * self.sector_bytes).bit_length())
        sectors = page_bytes // self.sector_bytes
        if t is None:
            t = OutlierCode(page_bytes, spare_bytes, value_bits).spare_bits_used // sectors // self.m
        if not 1 <= t <= 64:
            raise TileProbeError(f"bch with t = {t}: expected 1 to 64 corrected errors a sector")
        self.t, self.degree = t, self.m * t
        super().__init__(page_bytes, spare_bytes, value_bits)
        self._build()

    def _build(self) -> None:
        field = galois.make_field(self.m)
        generator = galois.generator_polynomial(field, self.t)
        assert (
            generator.bit_length() - 1 == self.degree
        )  # true for t <= 64: no conjugates among small odd powers
        self._table = galois.remainder_table(generator).reshape(-1)
        self._syndrome_table = galois.syndrome_table(field, self.degree, self.t)
        self._field = (field.exp, field.log, field.half, field.period)

    @property
    def spare_bits_used(self) -> int:
        return self.page_bytes // self.sector_bytes * self.degree

    def encode(self, values: np.ndarray) -> np.ndarray:
        stored = self.blank(values)
        _encode(stored, self.page_bytes, self.sector_bytes, self.degree, self._table)
        return stored

    def decode(self, stored: np.ndarray, fate: np.ndarray | None = None) -> tuple[np.ndarray, Counts]:
        self.check_stored(stored)
        if fate is not None:
            fate[:] = KEPT
        copy = stored.copy()
        corrected, beyond = _correct(
            copy, self.page_bytes, self.sector_bytes, self.degree, self.t, self.m,
            self._table, self._syndrome_table, self._field,
        )  # fmt: skip
        values = np.empty((len(stored), self.values_per_page), np.int8)
        unpack(copy, self.value_bits, values)
        return values, Counts(pages=len(stored), bits_corrected=int(corrected), uncorrectable=int(beyond))
