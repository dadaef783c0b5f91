"""Asynchronous copies, matrices in shared memory, atomics: how they become micro-ops."""

from __future__ import annotations

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.atomics import OPERATIONS, TRUTH, TYPES, VECTOR
from tileprobe.targets.simgpu.engine.lanes_address import SECOND
from tileprobe.targets.simgpu.engine.mbarriers import ARRIVAL, BYTE, WORD
from tileprobe.targets.simgpu.lower.case import Case, lowers
from tileprobe.targets.simgpu.lower.memory import size, wide_address

_HINTS = (
    "E", "BYPASS", "ACCESS", "LTC64B", "LTC128B", "LTC256B", "STRONG", "GPU", "SM", "CTA", "SYS", "EF", "EL", "ZFILL",
)  # fmt: skip


@lowers("LDGSTS")
def ldgsts(x: Case) -> None:
    x.has(*_HINTS)
    x.set(at.I2, size(x))
    x.address(wide=False)
    x.address(wide=True, fields=SECOND)
    if x.operands:
        x.predicate(0)
    x.emit("LDGSTS")


@lowers("LDGDEPBAR")
def ldgdepbar(x: Case) -> None:
    x.emit("LDGDEPBAR")


@lowers("DEPBAR")
def depbar(x: Case) -> None:
    """`DEPBAR.LE SB0, n`: of the groups of copies at most n may be under way. Other barriers of the scoreboard are
    about registers, which are written at once here."""
    if not x.has("LE"):
        x.operands.clear()
        x.emit("NOP")
        return
    barrier, pending = x.take(), x.take()
    x.operands.clear()
    if barrier.text != "SB0" or pending.kind != "hex":
        x.emit("NOP")
        return
    x.set(at.I0, pending.number)
    x.emit("DEPBAR")


@lowers("LDSM", "STSM")
def matrices(x: Case) -> None:
    if not x.has("16"):
        raise x.refuse("elements of another width")
    exchanged = x.one_of("M88", "MT88") == "MT88"
    count = int(x.one_of("2", "4", default="1"))
    x.set(at.I2, count | (0x100 if exchanged else 0))
    if x.instruction.root == "LDSM":
        x.result(rows=count)
        x.address(wide=False)
    else:
        x.address(wide=False)
        x.source(at.E, "bits", rows=count)
    x.emit(x.instruction.root)


@lowers("ARRIVES")
def arrives(x: Case) -> None:
    """Of the copies that a warp has issued: when they are done, each lane arrives at a barrier, or brings it a byte,
    which an instruction before has announced."""
    how = {"": WORD, "ARVCNT": ARRIVAL, "TRANSCNT": BYTE}[x.one_of("ARVCNT", "TRANSCNT", default="")]
    if not x.has("LDGSTSBAR") or not x.has("64") or (how == WORD) != (x.kernel.arch < 90):
        raise x.refuse("another kind of arrival")
    x.set(at.I2, how)
    x.address(wide=False)
    x.emit("ARRIVES")


_BYTES = {"U64": 8, "S64": 8, "F64": 8}
# Several numbers side by side: the type of each word, and bytes
_VECTORS = {
    "F32x2": ("F32", 8), "F32x4": ("F32", 16), "F16x4": ("F16x2", 8), "F16x8": ("F16x2", 16),
    "BF16x4": ("BF16x2", 8), "BF16x8": ("BF16x2", 16),
}  # fmt: skip


@lowers("ATOMG", "RED", "REDG", "ATOMS", "ATOM")
def atomic(x: Case) -> None:
    root = x.instruction.root
    if root == "ATOMS" and x.has("ARRIVE"):  # at a barrier in shared memory
        if not x.has("64"):
            raise x.refuse("this kind of atomic")
        x.result(rows=2)
        x.address(wide=False)
        x.emit("ATOMS_ARRIVE")
        return
    shared = root == "ATOMS"
    x.has(*_HINTS, "RN", "SPIN")
    flush = x.has("FTZ")
    counts = x.has("POPC")  # each lane adds one: the hardware counts lanes
    cast = x.has("CAST")
    wide = x.has("64")
    kind = x.one_of(*TYPES, *_VECTORS, default="U64" if wide else "U32")
    vector = _VECTORS.get(kind)
    x.has("32")
    operation = "CAS" if cast else x.one_of(*OPERATIONS)
    if (vector and (operation != "ADD" or root in ("ATOMS", "ATOM"))) or (counts and operation != "INC"):
        raise x.refuse("this kind of atomic")
    kind, width = vector or (kind, _BYTES.get(kind, 8 if wide else 4))
    if flush and kind != "F32":
        raise x.refuse("flushing of this type")
    rows = width // 4
    if kind in ("F16x2", "BF16x2", "F32", "F64") and operation not in ("ADD", "EXCH", "CAS"):
        raise x.refuse("this operation on floats")
    if root in ("ATOMG", "ATOMS", "ATOM"):
        if x.next_is("P"):
            x.predicate_result(0)
            if x.fields[at.PD] & 0xFF != at.NOWHERE:
                raise x.refuse("a predicate result")
        x.result(rows=rows)
    if shared:
        x.address(wide=False)
    else:
        wide_address(x)
    if counts:
        operation = "ADD"
        x.set(at.C, x.kernel.rows.offset((-1, 1)))
    else:
        x.source(at.C, "bits", rows=rows)
    if operation == "CAS":
        x.source(at.E, "bits", rows=rows)
    how = (VECTOR if vector else 0) | (TRUTH if cast else 0)
    x.set(at.I2, width | OPERATIONS.index(operation) << 8 | TYPES.index(kind) << 16 | how)
    x.emit(root if root in ("ATOMS", "ATOM") else "ATOMG")
