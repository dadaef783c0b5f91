"""Loads, stores and constants: how they become micro-ops."""

from __future__ import annotations

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.lanes_address import SIGNED
from tileprobe.targets.simgpu.engine.shadow import STRONG
from tileprobe.targets.simgpu.lower.case import Case, lowers
from tileprobe.targets.simgpu.operands import read

SIZES = {"U8": 1, "S8": 1 | SIGNED, "U16": 2, "S16": 2 | SIGNED, "32": 4, "64": 8, "128": 16}
# How near a value is to be kept, who may see it when: nothing of that changes values here.
_HINTS = (
    "E", "CONSTANT", "STRONG", "WEAK", "GPU", "SM", "CTA", "SYS", "EF", "EL", "LU", "NA", "LTC64B", "LTC128B",
    "LTC256B", "EU", "CV", "PRIVATE", "VC",
)  # fmt: skip


def size(x: Case) -> int:
    """Takes the width: its bytes, and whether a narrow value has a sign."""
    return SIZES[x.one_of(*SIZES, default="32")]


def _rows(width: int) -> int:
    return max(1, (width & 0xFF) // 4)


@lowers("LDG", "LDS", "LDL")
def load(x: Case) -> None:
    strong = STRONG if "STRONG" in x.mods else 0
    x.has(*_HINTS)
    width = size(x)
    x.set(at.I2, width | strong)
    x.result(rows=_rows(width))
    x.address(wide=x.instruction.root == "LDG")
    if x.next_is("P") and x.operands[0].text == "PT":  # a predicate that does nothing when it is always true
        x.take()
    x.emit(x.instruction.root)


@lowers("LD", "ST")
def generic(x: Case) -> None:
    """Any memory: the address says which."""
    x.has(*_HINTS)
    width = size(x)
    x.set(at.I2, width)
    if x.instruction.root == "LD":
        x.result(rows=_rows(width))
        wide_address(x)
        if x.next_is("P") and x.operands[0].text == "PT":
            x.take()
    else:
        wide_address(x)
        x.source(at.E, "bits", rows=_rows(width))
    x.emit(x.instruction.root)


def wide_address(x: Case) -> None:
    """Of generic accesses and global atomics the register is a pair even where `.64` is not written."""
    text = x.take().text
    head, bracket, rest = text.rpartition("[")
    first, plus, more = rest.partition("+")
    name = first.rstrip("]")
    if name.startswith("R") and "." not in name and name != "RZ":
        text = f"{head}{bracket}{name}.64{plus}{more}" + ("" if plus else "]")
    x.operands.insert(0, read(text))
    x.address(wide=True)


@lowers("STG", "STS", "STL")
def store(x: Case) -> None:
    strong = STRONG if "STRONG" in x.mods else 0
    x.has(*_HINTS)
    width = size(x)
    x.set(at.I2, width | strong)
    x.address(wide=x.instruction.root == "STG")
    x.source(at.E, "bits", rows=_rows(width))
    x.emit(x.instruction.root)


@lowers("LDC", "ULDC")
def constant(x: Case) -> None:
    width = size(x)
    rows = _rows(width)
    x.result(rows=rows)
    operand = x.take()
    if operand.kind != "c" or rows > 2:
        raise x.refuse(f"the operand {operand.text}")
    if not operand.index and width in (4, 8):
        x.operands.insert(0, operand)
        x.source(at.A, "bits", rows=rows)
        x.emit("mov" if rows == 1 else "mov_pair")
        return
    index = read(operand.index or ("URZ" if x.uniform else "RZ"))
    x.set(at.A, x.register(index.kind, index.number, 1, writing=False))
    x.set(at.I0, operand.number)
    x.set(at.I1, operand.bank)
    x.set(at.I2, width)
    x.emit("LDC")
