"""One handler over lanes at a time, without the rest of the engine: rows in, rows and predicates out.

`Machine` lays out a warp and rows as the engine does and calls the handler's machine code; handlers come from the
engine's table, or are compiled alone, as they are or changed.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

import numpy as np

from tileprobe.targets.simgpu.engine import layout as at

_CALL = ctypes.CFUNCTYPE(None, *([ctypes.c_int64] * 3), ctypes.c_int32, ctypes.c_int64)
ROWS = {at.A: 0, at.B: 4, at.C: 8, at.D: 16}  # registers: four rows for each operand


@dataclass
class Given:
    """What a handler is given: four rows of each source, fields of the micro-op, predicate operands."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    mods: int = 0
    i0: int = 0
    i1: int = 0
    i2: int = 0
    p0: np.ndarray = field(default_factory=lambda: np.ones(32, bool))
    p1: np.ndarray = field(default_factory=lambda: np.ones(32, bool))
    p2: np.ndarray = field(default_factory=lambda: np.ones(32, bool))
    mask: int = 0xFFFFFFFF
    before: np.ndarray = field(default_factory=lambda: np.full((4, 32), 0xABCD0123, np.uint32))
    turned: tuple[bool, bool] = (False, False)  # whether the first two predicates are written with a `!`
    slots: np.ndarray | None = None  # P0 to P6, or those from I2 on, for those that name them themselves

    def negated(self, n: int) -> bool:
        return bool(self.mods >> at.NEGATE + n & 1)

    def absolute(self, n: int) -> bool:
        return bool(self.mods >> at.ABSOLUTE + n & 1)

    def inverted(self, n: int) -> bool:
        return bool(self.mods >> at.INVERT + n & 1)

    def halves(self, n: int) -> int:
        return self.mods >> at.HALVES + 2 * n & 3

    def half_negated(self, n: int, part: int) -> bool:
        return bool(self.mods >> at.NEGATE_HALVES + 2 * n + part & 1)

    def source(self, n: int) -> np.ndarray:
        return (self.a, self.b, self.c)[n]


def bits(lanes: np.ndarray) -> int:
    return int(sum(1 << n for n, on in enumerate(lanes) if on))


def lanes(word: int) -> np.ndarray:
    return np.array([word >> n & 1 for n in range(32)], bool)


class Machine:
    def __init__(self) -> None:
        raw = np.zeros(at.W_REGISTERS + 32 * at.ROW + 64, np.uint8)
        skip = -raw.ctypes.data % 64
        self.warp = raw[skip : skip + at.W_REGISTERS + 32 * at.ROW]
        self.words = self.warp.view(np.uint32)
        self.scratch = np.zeros(at.CTA_SCRATCH_BYTES, np.uint8)
        self.constants = np.zeros((4, 32), np.uint32)
        self._keep = raw

    def rows(self, operand: int) -> np.ndarray:
        first = at.W_REGISTERS // 4 + 32 * ROWS[operand]
        return self.words[first : first + 128].reshape(4, 32)

    def slot(self, n: int) -> int:
        return int(self.words[at.W_PRED // 4 + n])

    def run(self, address: int, given: Given) -> dict[str, np.ndarray]:
        """D: the rows of the result; P0, P1: predicate results; slots: P0 to P6 (or others, by I2) afterwards."""
        self.words[:] = 0
        slots = self.words[at.W_PRED // 4 :]
        slots[at.PT] = slots[at.UPT] = 0xFFFFFFFF
        slots[8], slots[9] = 0x5A5A5A5A, 0xA5A5A5A5
        if given.slots is not None:
            slots[given.i2 : given.i2 + 7] = [bits(row) for row in given.slots]
        # sources in P0, P1, P2; results in UP0 and UP1, which nobody reads
        else:
            slots[:3] = [
                bits(p != turned) for p, turned in zip((given.p0, given.p1, given.p2), (*given.turned, False))
            ]
        for operand, value in ((at.A, given.a), (at.B, given.b), (at.C, given.c), (at.D, given.before)):
            self.rows(operand)[:] = value
        uop = np.zeros(16, np.int32)
        for operand in ROWS:
            uop[operand] = at.W_REGISTERS + at.ROW * ROWS[operand]
        first, second = (at.NEGATED if turned else 0 for turned in given.turned)
        uop[at.PD], uop[at.PS] = 8 | 9 << at.SECOND, first | (1 | second) << at.SECOND
        uop[at.MODS], uop[at.I0], uop[at.I1], uop[at.I2] = (
            np.array([given.mods, given.i0, given.i1, given.i2], np.int64).astype(np.uint32).astype(np.int32)
        )
        if given.slots is None and getattr(given, "third", False):
            uop[at.C] = 2
        mask = given.mask - (1 << 32) if given.mask >> 31 else given.mask
        places = (x.ctypes.data for x in (uop, self.warp, self.constants))
        _CALL(address)(*places, mask, self.scratch.ctypes.data)
        first = given.i2 if given.slots is not None else 0
        return {
            "D": self.rows(at.D).copy(), "P0": lanes(self.slot(8)), "P1": lanes(self.slot(9)),
            "slots": np.array([lanes(self.slot(first + n)) for n in range(7)]),
        }  # fmt: skip
