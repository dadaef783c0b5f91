"""Branches, barriers between lanes and warps: how they become micro-ops."""

from __future__ import annotations

import re

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.listing import BYTES
from tileprobe.targets.simgpu.lower.case import Case, lowers
from tileprobe.targets.simgpu.operands import read


@lowers(
    "NOP", "ERRBAR", "CCTL", "CGAERRBAR", "YIELD", "UTMACCTL", "ACQBULK", "CCTLL", "PREEXIT", "UTMAPF", "ENDCOLLECTIVE",
)  # fmt: skip
def nothing(x: Case) -> None:
    """Order and caches of memory, and waits for what is done at once here: what is written is seen by everybody."""
    x.mods.clear()
    x.operands.clear()
    x.emit("NOP")


@lowers("MEMBAR")
def membar(x: Case) -> None:
    x.has("ALL", "SC", "GPU", "CTA", "SYS", "VC", "CLUSTER", "OVERRIDE")
    x.emit("NOP")


@lowers("BRA")
def bra(x: Case) -> None:
    """A predicate before the place decides together with the guard; a uniform one likewise."""
    x.has("U")
    how = x.one_of("ANY", "DIV", "CONV", default="")
    if how in ("DIV", "CONV"):  # the lanes that are to be here
        if x.operands and x.operands[0].text == "~URZ":
            x.take()
            x.set(at.A, x.kernel.rows.offset((-1, 0xFFFFFFFF)))
        else:
            x.source(at.A, "bits")
    x.set(at.I1, ("", "ANY", "DIV", "CONV").index(how))
    if x.next_is("P", "UP"):
        x.predicate(0)
    x.set(at.I0, x.label())
    x.emit("BRA")


@lowers("CALL")
def call(x: Case) -> None:
    """To a place in the same code, as a branch (the return address is in registers already), or to a function of the
    driver, whose address is in two registers."""
    x.has("NOINC")
    if x.one_of("REL", "ABS") == "REL":
        x.set(at.I0, x.label())
        x.emit("BRA")
    else:
        x.source(at.A, "bits", rows=2)
        x.emit("CALL_REGISTER")


@lowers("RET")
def back(x: Case) -> None:
    x.has("NODEC")
    x.one_of("REL")
    register, _, function = x.take().text.partition(" ")
    if not function:
        raise x.refuse("the function is missing")
    x.operands.insert(0, read(register))
    x.source(at.A, "bits", rows=2)
    x.emit("RET")


_TABLE = re.compile(r"(U?R\d+) (-?0x[0-9a-f]+)")


@lowers("BRX", "BRXU")
def table_jump(x: Case) -> None:
    """`BRX R2 -0x110`: each lane to the place in R2 and R3, counted from the next instruction and so far back. Tables
    hold places within the function; what is added takes away the place of the jump."""
    found = _TABLE.fullmatch(x.take().text)
    if not found or int(found[2], 16) != -(x.instruction.address + BYTES):
        raise x.refuse("a jump that does not begin with the function")
    x.operands.insert(0, read(found[1]))
    x.source(at.A, "bits", rows=2)
    x.emit("RET")


@lowers("LEPC")
def lepc(x: Case) -> None:
    x.result(rows=2)
    x.set(at.I0, x.label() if x.operands else -1)
    x.emit("LEPC")


@lowers("EXIT")
def leave(x: Case) -> None:
    x.has("KEEPREFCOUNT")
    x.emit("EXIT")


@lowers("BSSY", "BSYNC", "BREAK")
def converge(x: Case) -> None:
    x.has("RECONVERGENT", "RELIABLE")
    if x.next_is("P", "UP"):
        x.predicate(0)
    barrier = x.take()
    if barrier.kind != "B" or not 0 <= barrier.number < 16:
        raise x.refuse(f"the operand {barrier.text}")
    x.set(at.I0, barrier.number)
    if x.instruction.root == "BSSY":
        x.label()
    x.emit(x.instruction.root)


@lowers("WARPSYNC")
def warpsync(x: Case) -> None:
    """All lanes, or those of a mask in a register."""
    x.has("EXCLUSIVE", "COLLECTIVE")
    if x.has("ALL"):
        x.set(at.A, x.kernel.rows.offset((-1, 0xFFFFFFFF)))
    else:
        x.source(at.A, "bits")
    if x.next_is("label"):  # up to where they go on together, which they do in any case
        x.label()
    x.emit("WARPSYNC")


@lowers("BMOV")
def bmov(x: Case) -> None:
    """The lanes that a convergence barrier waits for, into a register or from it."""
    x.has("32", "CLEAR", "PQUAD")
    if x.next_is("B"):
        x.set(at.I0, x.take().number)
        x.source(at.A, "bits")
        x.emit("BMOV_WRITE")
        return
    x.result()
    barrier = x.take()
    if barrier.kind != "B":
        raise x.refuse(f"the operand {barrier.text}")
    x.set(at.I0, barrier.number)
    x.set(at.I1, int("CLEAR" in x.instruction.mods))
    x.emit("BMOV_READ")


@lowers("NANOSLEEP")
def nanosleep(x: Case) -> None:
    """Others have a turn meanwhile."""
    x.has("WARP", "SYNCS")
    x.operands.clear()
    x.emit("NANOSLEEP")


@lowers("BAR")
def bar(x: Case) -> None:
    x.has("DEFER_BLOCKING")
    kind = x.one_of("SYNC", "ARV")
    x.set(at.I0, {"SYNC": 0, "ARV": 1}[kind])
    x.source(at.A, "bits")
    if x.operands:
        x.source(at.B, "bits")
    x.emit("BAR")


@lowers("BPT")
def trap(x: Case) -> None:
    x.mods.clear()
    x.operands.clear()
    x.emit("TRAP")
