"""The code of Cambricon-LLM: the largest 1 % of a page's values are kept three times, the rest not at all.

Spare area: the threshold (the smallest protected magnitude) in 9 copies, then one record a protected value,
in the order of addresses: the address, its Hamming code, two copies of the value. Decoding votes bit by bit
between the value and its copies; any other value beyond the threshold must be a flipped one and becomes
zero.
"""

from __future__ import annotations

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.functional.ecc.base import KEPT, VOTED, ZEROED, Counts, PageCodec
from tileprobe.targets.cambricon.functional.ecc.packing import get_bits, put_bits, unpack_page
from tileprobe.targets.jit import jit

THRESHOLD_COPIES = 9  # [paper]
PROTECTED_SHARE = 0.01  # [paper] 163 of 16,384
DISCARD = np.uint32(0xFFFFFFFF)
THRESHOLDS = ("magnitude", "signed")


def hamming_bits(data_bits: int) -> int:
    """The check bits of a single-error-correcting Hamming code over `data_bits` bits."""
    check = 2
    while 2**check < data_bits + check + 1:
        check += 1
    return check


def hamming_tables(data_bits: int) -> tuple[np.ndarray, np.ndarray]:
    """(check bits of every word, what to flip for every syndrome; DISCARD where no single flip fits)."""
    check_bits = hamming_bits(data_bits)
    positions = [p for p in range(1, data_bits + check_bits + 1) if p & (p - 1)]
    words = np.arange(2**data_bits)
    check = np.zeros(2**data_bits, np.uint8)
    flip = np.full(2**check_bits, DISCARD, np.uint32)
    flip[[0, *(1 << k for k in range(check_bits))]] = 0  # none, or one of the check bits: the word is right
    for bit, position in enumerate(positions):
        check ^= np.where(words >> bit & 1, position, 0).astype(np.uint8)
        flip[position] = 1 << bit
    return check, flip


@jit
def _encode_page(values, spare, protected, address_bits, check_bits, value_bits, check):
    histogram = np.zeros(129, np.int64)
    for i in range(values.size):
        histogram[abs(np.int64(values[i]))] += 1
    threshold, ties = 128, protected
    while histogram[threshold] < ties:
        ties -= histogram[threshold]
        threshold -= 1
    for copy in range(THRESHOLD_COPIES):
        put_bits(spare, copy * value_bits, value_bits, threshold)
    at = THRESHOLD_COPIES * value_bits
    mask = (1 << value_bits) - 1
    for i in range(values.size):
        magnitude = abs(np.int64(values[i]))
        if magnitude < threshold or (magnitude == threshold and ties == 0):
            continue
        if magnitude == threshold:
            ties -= 1
        value = np.int64(values[i]) & mask
        copies = value | (value << value_bits)
        put_bits(spare, at, address_bits + check_bits, i | (np.int64(check[i]) << address_bits))
        put_bits(spare, at + address_bits + check_bits, 2 * value_bits, copies)
        at += address_bits + check_bits + 2 * value_bits


@jit
def _threshold(spare, value_bits):
    """Bitwise majority of the 9 copies."""
    threshold = 0
    for bit in range(value_bits):
        votes = 0
        for copy in range(THRESHOLD_COPIES):
            at = copy * value_bits + bit
            votes += (spare[at >> 3] >> (at & 7)) & 1
        threshold |= (1 if 2 * votes > THRESHOLD_COPIES else 0) << bit
    return threshold


@jit
def _zero_outliers(values, threshold, signed):
    """Zeroes what lies beyond the threshold; how many. Branch-free, so that it runs on vectors."""
    zeroed = 0
    limit = np.int16(threshold)
    if signed:
        for i in range(values.size):
            keep = np.int16(values[i]) <= limit
            zeroed += 1 - np.int64(keep)
            values[i] = values[i] * np.int8(keep)
    else:
        for i in range(values.size):
            keep = abs(np.int16(values[i])) <= limit
            zeroed += 1 - np.int64(keep)
            values[i] = values[i] * np.int8(keep)
    return zeroed


@jit
def _beyond(value, threshold, signed):
    return np.int64(value) > threshold if signed else abs(np.int64(value)) > threshold


@jit
def _raw_value(page, address, value_bits):
    if value_bits == 8:
        return np.int64(page[address])
    return (np.int64(page[address >> 1]) >> (4 * (address & 1))) & 15


@jit
def _signed(word, value_bits):
    return np.int8((word << (64 - value_bits)) >> (64 - value_bits))


@jit
def _address(record, sizes, check, flip):
    """(address after correction, whether it was corrected); -1 where no single error fits the syndrome."""
    address_bits, check_bits, _ = sizes
    address = record & ((1 << address_bits) - 1)
    stored_check = (record >> address_bits) & ((1 << check_bits) - 1)
    syndrome = np.int64(check[address]) ^ stored_check
    if syndrome == 0:
        return address, False
    if flip[syndrome] == DISCARD:
        return -1, False
    return address ^ np.int64(flip[syndrome]), True


@jit
def _decode_page(page, spare, values, seen, protected, sizes, check, flip, signed, fate, counts):
    address_bits, check_bits, value_bits = sizes
    unpack_page(page, value_bits, values)
    threshold = _threshold(spare, value_bits)
    if fate.size:
        for i in range(values.size):
            fate[i] = ZEROED if _beyond(values[i], threshold, signed) else KEPT
    counts[1] += _zero_outliers(values, threshold, signed)
    value_mask = (1 << value_bits) - 1
    at = THRESHOLD_COPIES * value_bits
    record_bits = address_bits + check_bits + 2 * value_bits
    for _ in range(protected):
        record = np.int64(get_bits(spare, at, record_bits))
        at += record_bits
        address, corrected = _address(record, sizes, check, flip)
        if address < 0 or address >= values.size:  # the latter in pages whose size is no power of two
            counts[3] += 1
            continue
        counts[2] += corrected
        first = (record >> (address_bits + check_bits)) & value_mask
        second = record >> (address_bits + check_bits + value_bits)
        raw = _raw_value(page, address, value_bits)
        voted = (raw & first) | (raw & second) | (first & second)
        if not seen[address]:
            counts[0] += voted != raw
            counts[1] -= _beyond(_signed(raw, value_bits), threshold, signed)
            seen[address] = True
        values[address] = _signed(voted, value_bits)
        if fate.size:
            fate[address] = VOTED


@jit
def _clear_seen(seen):
    for i in range(seen.size):
        seen[i] = False


@jit
def _decode(stored, page_bytes, values, protected, sizes, check, flip, signed, fate):
    counts = np.zeros(4, np.int64)  # voted, zeroed, addresses corrected, discarded
    seen = np.zeros(values.shape[1], np.bool_)
    for p in range(values.shape[0]):
        row = fate[p] if fate.shape[0] else fate[:0].reshape(-1)
        page, spare = stored[p, :page_bytes], stored[p, page_bytes:]
        _decode_page(page, spare, values[p], seen, protected, sizes, check, flip, signed, row, counts)
        _clear_seen(seen)
    return counts


@jit
def _addresses(stored, page_bytes, sizes, check, flip, found):
    address_bits, check_bits, value_bits = sizes
    record_bits = address_bits + check_bits + 2 * value_bits
    for p in range(found.shape[0]):
        for k in range(found.shape[1]):
            at = THRESHOLD_COPIES * value_bits + k * record_bits
            record = np.int64(get_bits(stored[p, page_bytes:], at, record_bits))
            found[p, k] = _address(record, sizes, check, flip)[0]


@jit
def _encode(values, stored, page_bytes, protected, sizes, check):
    address_bits, check_bits, value_bits = sizes
    for p in range(values.shape[0]):
        spare = stored[p, page_bytes:]
        _encode_page(values[p], spare, protected, address_bits, check_bits, value_bits, check)


class OutlierCode(PageCodec):
    """`threshold` says how the comparator reads a value: by magnitude, or as the signed number it is."""

    name = "paper"

    def __init__(
        self,
        page_bytes: int = 16384,
        spare_bytes: int = 1664,
        value_bits: int = 8,
        threshold: str = "magnitude",
    ):
        if threshold not in THRESHOLDS:
            raise TileProbeError(f"threshold {threshold!r}: expected one of {', '.join(THRESHOLDS)}")
        self.threshold = threshold
        count = page_bytes * 8 // value_bits
        self.protected = int(count * PROTECTED_SHARE)
        self.address_bits = (count - 1).bit_length()
        self.check_bits = hamming_bits(self.address_bits)
        super().__init__(page_bytes, spare_bytes, value_bits)
        self._check, self._flip = hamming_tables(self.address_bits)
        self._sizes = (self.address_bits, self.check_bits, value_bits)

    @property
    def record_bits(self) -> int:
        return self.address_bits + self.check_bits + 2 * self.value_bits

    @property
    def spare_bits_used(self) -> int:
        return THRESHOLD_COPIES * self.value_bits + self.record_bits * self.protected

    def record_addresses(self, stored: np.ndarray) -> np.ndarray:
        """The address that each record of each page leads to; -1 where the record is discarded."""
        self.check_stored(stored)
        found = np.empty((len(stored), self.protected), np.int64)
        _addresses(stored, self.page_bytes, self._sizes, self._check, self._flip, found)
        return np.where(found < self.values_per_page, found, -1)

    def encode(self, values: np.ndarray) -> np.ndarray:
        stored = self.blank(values)
        _encode(values, stored, self.page_bytes, self.protected, self._sizes, self._check)
        return stored

    def decode(self, stored: np.ndarray, fate: np.ndarray | None = None) -> tuple[np.ndarray, Counts]:
        self.check_stored(stored)
        values = np.empty((len(stored), self.values_per_page), np.int8)
        if fate is None:
            fate = np.empty((0, 0), np.uint8)
        counts = _decode(
            stored, self.page_bytes, values, self.protected, self._sizes, self._check, self._flip,
            self.threshold == "signed", fate,
        )  # fmt: skip
        voted, zeroed, corrected, discarded = (int(n) for n in counts)
        return values, Counts(len(stored), voted, zeroed, corrected, discarded)
