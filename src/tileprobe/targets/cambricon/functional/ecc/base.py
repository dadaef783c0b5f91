"""What every page code offers, and the counts it reports.

A codec turns rows of weights (int8 values, one row a page) into stored pages (uint8: data area, then spare
area) and back. `Counts` is what the error correction unit can see; audit.py adds what only the writer knows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.functional.ecc.packing import pack, unpack

KEPT, VOTED, ZEROED = 0, 1, 2  # the fate of one value in `Codec.decode`


@dataclass
class Counts:
    """What the decoder itself saw, summed over pages."""

    pages: int = 0
    voted: int = 0  # values replaced by a majority that differed from the stored value
    zeroed: int = 0  # values set to zero by the threshold rule
    addresses_corrected: int = 0
    discarded: int = 0  # records thrown away for an address beyond repair
    bits_corrected: int = 0  # Hamming and BCH page codes
    uncorrectable: int = 0  # words (Hamming) or sectors (BCH) left as they were

    def __iadd__(self, other: Counts) -> Counts:
        for field in fields(Counts):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
        return self

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


class PageCodec:
    """A page code: the sizes, the checks that every code shares, and `encode` and `decode` of its own."""

    name = "page"

    def __init__(self, page_bytes: int = 16384, spare_bytes: int = 1664, value_bits: int = 8):
        if value_bits not in (4, 8):
            raise TileProbeError(f"weights of {value_bits} bits: a page code holds values of 4 or 8 bits")
        if page_bytes < 128 or page_bytes % 16:
            raise TileProbeError(
                f"a page of {page_bytes} bytes: at least 128 and a multiple of 16 are needed"
            )
        self.page_bytes, self.spare_bytes, self.value_bits = page_bytes, spare_bytes, value_bits
        self.values_per_page = page_bytes * 8 // value_bits
        if (needed := -(-self.spare_bits_used // 8)) > spare_bytes:
            raise TileProbeError(
                f"the {self.name} code needs {needed} bytes of spare area a page, the machine has "
                f"{spare_bytes}: use another code, or a machine with more spare_bytes"
            )

    @property
    def spare_bits_used(self) -> int:
        return 0

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Stored pages (data and spare area) of rows of values."""
        raise NotImplementedError

    def decode(self, stored: np.ndarray, fate: np.ndarray | None = None) -> tuple[np.ndarray, Counts]:
        """The values of stored pages after correction; `fate`, when given, receives what became of each."""
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        return {
            "ecc": self.name,
            "spare_bits_used": self.spare_bits_used,
            "spare_bytes": self.spare_bytes,
            "spare_share": self.spare_bits_used / (8 * self.page_bytes),
        }

    def blank(self, values: np.ndarray) -> np.ndarray:
        """Stored pages with their data area written and their spare area zero."""
        if values.dtype != np.int8 or values.ndim != 2 or values.shape[1] != self.values_per_page:
            raise TileProbeError(
                f"pages of {values.dtype} {values.shape}: expected int8 rows of {self.values_per_page} values"
            )
        stored = np.zeros((len(values), self.page_bytes + self.spare_bytes), np.uint8)
        pack(values, self.value_bits, stored)
        return stored

    def data_of(self, stored: np.ndarray) -> np.ndarray:
        """The raw values of stored pages, before any correction."""
        self.check_stored(stored)
        values = np.empty((len(stored), self.values_per_page), np.int8)
        unpack(stored, self.value_bits, values)
        return values

    def check_stored(self, stored: np.ndarray) -> None:
        if (
            stored.dtype != np.uint8
            or stored.ndim != 2
            or stored.shape[1] != self.page_bytes + self.spare_bytes
        ):
            raise TileProbeError(
                f"stored pages of {stored.dtype} {stored.shape}: expected uint8 rows of "
                f"{self.page_bytes} + {self.spare_bytes} bytes"
            )


class NoCode(PageCodec):
    """No correction: what the flash returns is what is computed with."""

    name = "none"

    def encode(self, values: np.ndarray) -> np.ndarray:
        return self.blank(values)

    def decode(self, stored: np.ndarray, fate: np.ndarray | None = None) -> tuple[np.ndarray, Counts]:
        if fate is not None:
            fate[:] = KEPT
        return self.data_of(stored), Counts(pages=len(stored))
