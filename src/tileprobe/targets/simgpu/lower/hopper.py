"""What sm_90 brings: barriers in shared memory, bulk copies, products of warp groups."""

from __future__ import annotations

import re

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.atomics import OPERATIONS
from tileprobe.targets.simgpu.engine.groups import (
    EXCHANGED_A,
    EXCHANGED_B,
    FORMS,
    HALF_SUMS,
    LAST_OF_GROUP,
    OTHER_B,
    REGISTERS,
)
from tileprobe.targets.simgpu.lower.case import Case, lowers

_ARRIVALS = {
    "A1TR": 1 | 4, "A1T0": 1, "A0TR": 4, "ART0": 2, "A0T1": 8,
}  # arrivals and bytes: none, one, or what the register says  # fmt: skip
_DESCRIPTOR = re.compile(r"gdesc\[UR(\d+)\]((?:\.\w+)*)")
_SHAPE = re.compile(r"64x(\d+)x(\d+)")


@lowers("SYNCS")
def syncs(x: Case) -> None:
    kind = x.one_of("EXCH", "ARRIVE", "PHASECHK", "CCTL")
    x.has("64", "TRANS64")
    if kind == "EXCH":
        if x.take().text != "URZ":
            raise x.refuse("the value before")
        x.address(wide=False)
        x.source(at.C, "bits", rows=2)
        x.emit("SYNCS_EXCH")
    elif kind == "CCTL":
        x.one_of("IV")
        x.address(wide=False)
        x.emit("SYNCS_CCTL")
    elif kind == "ARRIVE":
        x.has("RED")
        x.set(at.I2, _ARRIVALS[x.one_of(*_ARRIVALS, default="A1TR")])
        if x.take().text != "RZ":
            raise x.refuse("a result")
        x.address(wide=False)
        x.source(at.C, "bits")
        x.emit("SYNCS_ARRIVE")
    else:
        x.set(at.I2, int(x.has("TRYWAIT")))
        x.predicate_result(0)
        x.address(wide=False)
        x.source(at.C, "bits")
        x.emit("SYNCS_PHASE")


def _uniform(x: Case, rows: int) -> int:
    """Takes `[UR4]`: so many registers from it on."""
    found = re.fullmatch(r"\[UR(\d+)\]", x.take().text)
    if not found:
        raise x.refuse("an address in uniform registers is missing")
    return x.register("UR", int(found[1]), rows, writing=False)


_POLICY = re.compile(r"desc\[UR\d+\]")


def _hint(x: Case) -> None:
    """Takes the policy of the cache, if one is there (`desc[UR4]`): values are the same with it."""
    if x.operands and _POLICY.fullmatch(x.operands[-1].text):
        x.take(-1)


@lowers("UTMALDG", "UTMASTG")
def bulk(x: Case) -> None:
    _hint(x)
    rank = int(x.one_of("1D", "2D", "3D", "4D", "5D")[0])
    load = x.instruction.root == "UTMALDG"
    many, columns = load and x.has("MULTICAST"), load and x.has("IM2COL")
    x.set(at.I0, rank)
    x.set(at.A, _uniform(x, rank + (2 if load else 1)))
    x.set(at.B, _uniform(x, 2))
    if many or columns:  # offsets of pixels; from the 16th bit on to which programs of the cluster
        x.source(at.C, "bits")
    x.set(at.I1, int(many) | int(columns) << 1)
    x.emit(x.instruction.root)


_PAIR = re.compile(r"\[R(\d+)\.64\]")


@lowers("STAS")
def remote_store(x: Case) -> None:
    """`STAS.128 [R2.64], R4`: R2 says where to, R3 which barrier is told (by the code that ptxas makes of st.async)."""
    width = int(x.one_of("64", "128", default="32")) // 8
    found = _PAIR.fullmatch(x.take().text)
    if not found:
        raise x.refuse("an address and a barrier in two registers are missing")
    x.set(at.A, x.register("R", int(found[1]), 2, writing=False))
    x.source(at.E, "bits", rows=width // 4)
    x.set(at.I2, width)
    x.emit("STAS")


@lowers("UTMAREDG")
def bulk_reduction(x: Case) -> None:
    _hint(x)
    rank = int(x.one_of("1D", "2D", "3D", "4D", "5D")[0])
    x.set(at.I0, rank)
    x.set(at.I1, OPERATIONS.index(x.one_of("ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR")))
    x.set(at.A, _uniform(x, rank + 1))
    x.set(at.B, _uniform(x, 2))
    x.emit("UTMAREDG")


@lowers("UCGABAR_ARV", "UCGABAR_WAIT")
def cluster_barrier(x: Case) -> None:
    x.emit(x.instruction.root)


@lowers("USETMAXREG")
def setmaxreg(x: Case) -> None:
    """Registers are there for all: an allocation succeeds."""
    x.has("CTAPOOL")
    kind = x.one_of("TRY_ALLOC", "DEALLOC")
    if kind == "DEALLOC":
        x.operands.clear()
        x.emit("NOP")
        return
    x.predicate_result(0)
    x.take()
    # all three sources are true: the table of their conjunction
    x.fields[at.C] = at.PT
    x.set(at.I0, 0x80)
    x.emit("plop3")


_TYPES = {"HGMMA": ("F16", "BF16", "TF32"), "QGMMA": ("E4M3", "E5M2"), "IGMMA": ("S8", "U8")}


@lowers("HGMMA", "QGMMA", "IGMMA")
def product(x: Case) -> None:
    root = x.instruction.root
    shape = _SHAPE.fullmatch(x.mods.pop(0)) if x.mods else None
    if shape is None:
        raise x.refuse("this shape")
    how = 0
    if root != "IGMMA" and x.one_of("F32", "F16") == "F16":
        how |= HALF_SUMS
    kinds = [mod for mod in x.mods if mod in _TYPES[root]]
    x.mods = [mod for mod in x.mods if mod not in _TYPES[root]]
    if len(set(kinds)) > 1:
        if root != "QGMMA" or len(kinds) != 2:
            raise x.refuse("A and B of different types")
        how |= OTHER_B
    form = (kinds[0] if kinds else "F16").lower()
    if how & HALF_SUMS and form not in ("f16", "e4m3", "e5m2"):
        raise x.refuse("sums in half precision")
    columns, depth = int(shape[1]), int(shape[2])
    if depth != {"f16": 16, "bf16": 16, "tf32": 8}.get(form, 32) or columns % 8 or not 8 <= columns <= 256:
        raise x.refuse("this shape")
    rows = columns // (4 if how & HALF_SUMS else 2)
    x.result(rows=rows)
    if x.next_is("R"):
        how |= REGISTERS
        x.source(at.A, "bits", rows=4)
    found = _DESCRIPTOR.fullmatch(x.take().text)
    if not found:
        raise x.refuse("a descriptor is missing")
    for suffix in found[2].split(".")[1:]:
        if suffix not in ("tnspA", "tnspB"):
            raise x.refuse(f"the modifier {suffix}")
        how |= EXCHANGED_A if suffix == "tnspA" else EXCHANGED_B
    x.set(at.E, x.register("UR", int(found[1]), 4, writing=False))
    x.source(at.C, "bits", rows=rows)
    while x.operands:  # a scoreboard, and whether there are sums to add to
        if x.next_is("UP", "P"):
            x.predicate(0)
        elif x.take().text == "gsb0":
            how |= LAST_OF_GROUP
        else:
            raise x.refuse("an operand")
    x.set(at.I0, columns)
    x.set(at.I1, FORMS.index(form) | how)
    x.emit("HGMMA")


@lowers("WARPGROUP")
def group(x: Case) -> None:
    """`WARPGROUP.DEPBAR.LE gsb0, n`: of the groups of products at most n may be under way."""
    if not x.has("DEPBAR"):
        x.mods.clear()
        x.operands.clear()
        x.emit("NOP")
        return
    x.has("LE")
    barrier, pending = x.take(), x.take()
    if barrier.text != "gsb0" or pending.kind != "hex":
        raise x.refuse("this wait")
    x.set(at.I0, pending.number)
    x.emit("WARPGROUP")


@lowers("FENCE", "UTMACMDFLUSH")
def order(x: Case) -> None:
    """What is written is seen at once; for the checks it matters that a fence was there, and where a group ends."""
    x.mods.clear()
    x.operands.clear()
    x.emit(x.instruction.root)
