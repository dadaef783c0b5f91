"""Handlers of parts of a register that inline assembly reaches: permutations by a mode, distances, packed numbers.

What each does is the PTX ISA's: `prmt` with a mode, `sad`, `vabsdiff4`, `cvt.pack`; one instruction stands for each.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.lanes import I32, Lanes, handler
from tileprobe.targets.simgpu.engine.lanes_integer import permuted

A, B, C = at.A, at.B, at.C
# By the low two bits of the selector: which of eight bytes go where, the lowest in the last digit (table of `prmt`).
MODES = {
    "F4E": (0x3210, 0x4321, 0x5432, 0x6543),
    "B4E": (0x5670, 0x6701, 0x7012, 0x0123),
    "RC8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ECL": (0x3210, 0x3211, 0x3222, 0x3333),
    "ECR": (0x0000, 0x1110, 0x2210, 0x3210),
    "RC16": (0x1010, 0x3232, 0x1010, 0x3232),
}


def _permuted_by(k: Lanes, mode: str) -> None:
    b = k.b
    number = b.and_(k.row(B), k.splat(3, I32))
    selector = k.splat(MODES[mode][0], I32)
    for n, table in enumerate(MODES[mode][1:], 1):
        here = b.icmp_unsigned("==", number, k.splat(n, I32))
        selector = b.select(here, k.splat(table, I32), selector)
    k.out(permuted(k, selector))


for _mode in MODES:
    handler(f"prmt_{_mode.lower()}", partial(_permuted_by, mode=_mode))


def _distance(k: Lanes, x: Any, y: Any, signed: bool) -> Any:
    """Between two numbers, which has no sign: of 32 bits it may need all."""
    b = k.b
    less = (b.icmp_signed if signed else b.icmp_unsigned)("<", x, y)
    return b.select(less, b.sub(y, x), b.sub(x, y))


def _distance_of_words(k: Lanes, signed: bool) -> None:
    k.out(k.b.add(_distance(k, k.row(A), k.row(B), signed), k.row(C)))


def _byte(k: Lanes, source: int, n: int, signed: bool) -> Any:
    raised = k.b.shl(k.row(source), k.splat(24 - 8 * n, I32))
    return (k.b.ashr if signed else k.b.lshr)(raised, k.splat(24, I32))


def _distance_of_bytes(k: Lanes, signed: bool, added: bool) -> None:
    """Of four bytes, side by side; `added`: their sum and C."""
    b = k.b
    result = k.row(C) if added else k.splat(0, I32)
    for n in range(4):
        each = _distance(k, _byte(k, A, n, signed), _byte(k, B, n, signed), signed)
        result = b.add(result, each) if added else b.or_(result, b.shl(each, k.splat(8 * n, I32)))
    k.out(result)


for _signed in (False, True):
    _kind = "s" if _signed else "u"
    handler(f"absdiff_{_kind}", partial(_distance_of_words, signed=_signed))
    for _added in (False, True):
        handler(
            f"absdiff4_{_kind}{'_acc' * _added}", partial(_distance_of_bytes, signed=_signed, added=_added)
        )

PACKED = ("S16", "U16", "S8", "U8", "S4", "U4", "S2", "U2")


def _packed(k: Lanes, bits: int, signed: bool) -> None:
    """A above B, each held within so many bits; the low bits of C above them."""
    b = k.b
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def held(source: int) -> Any:
        value = k.row(source)
        value = b.select(b.icmp_signed("<", value, k.splat(low, I32)), k.splat(low, I32), value)
        value = b.select(b.icmp_signed(">", value, k.splat(high, I32)), k.splat(high, I32), value)
        return b.and_(value, k.splat((1 << bits) - 1, I32))

    result = b.or_(held(B), b.shl(held(A), k.splat(bits, I32)))
    if bits < 16:
        result = b.or_(result, b.shl(k.row(C), k.splat(2 * bits, I32)))
    k.out(result)


for _form in PACKED:
    handler(f"pack_{_form.lower()}", partial(_packed, bits=int(_form[1:]), signed=_form[0] == "S"))
