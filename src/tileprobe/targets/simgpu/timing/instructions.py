"""How each instruction of a kernel is timed: its unit, how long that is taken, its latency, its control codes.

In come a decoded kernel and a machine; out goes a row of numbers for each instruction (`engine/timed_layout.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import timed_layout as tl
from tileprobe.targets.simgpu.listing import Control
from tileprobe.targets.simgpu.machine import Timing
from tileprobe.targets.simgpu.program import Program
from tileprobe.targets.simgpu.timing.banks import reads
from tileprobe.targets.simgpu.timing.loops import opcode_of

_FMA = {"FFMA", "FMUL", "FADD", "IMAD", "FFMA32I", "FMUL32I", "FADD32I", "IDP"}
_HALF = {"HADD2", "HFMA2", "HMUL2", "HMNMX2", "HSETP2", "HSET2"}
_DOUBLE = {"DADD", "DMUL", "DFMA", "DSETP"}
_XU = {"MUFU", "I2F", "F2I", "F2F", "FRND", "FLO", "POPC", "BREV"}  # sixteen lanes a cycle
_CONTROL = {
    "BRA", "BRX", "EXIT", "BSSY", "BSYNC", "BREAK", "NOP", "CALL", "RET", "WARPSYNC", "BMOV", "YIELD", "NANOSLEEP",
    "BAR", "DEPBAR", "LDGDEPBAR", "WARPGROUP", "MEMBAR", "ERRBAR", "CCTL", "FENCE", "BPT", "LEPC", "UCGABAR_ARV",
    "UCGABAR_WAIT", "USETMAXREG", "ELECT", "ENDCOLLECTIVE",
}  # fmt: skip
_MEMORY = {
    "LDG": tl.LOAD_GLOBAL, "LD": tl.LOAD_GLOBAL, "STG": tl.STORE_GLOBAL, "ST": tl.STORE_GLOBAL,
    "LDS": tl.LOAD_SHARED, "STS": tl.STORE_SHARED, "LDSM": tl.MATRIX_SHARED, "STSM": tl.MATRIX_SHARED,
    "LDGSTS": tl.COPY, "ATOMG": tl.ATOMIC_GLOBAL, "RED": tl.ATOMIC_GLOBAL, "REDG": tl.ATOMIC_GLOBAL,
    "ATOM": tl.ATOMIC_GLOBAL, "ATOMS": tl.ATOMIC_SHARED, "LDL": tl.LOCAL, "STL": tl.LOCAL, "LDC": tl.LOCAL,
    "SYNCS": tl.MBARRIER, "SHFL": tl.FIXED, "UTMALDG": tl.BULK_LOAD, "UTMASTG": tl.BULK_STORE,
    "UTMAREDG": tl.BULK_STORE, "S2R": tl.FIXED, "S2UR": tl.FIXED, "MOVM": tl.FIXED, "MATCH": tl.FIXED,
    "REDUX": tl.FIXED, "UTMACMDFLUSH": tl.FIXED, "UTMACCTL": tl.FIXED, "ARRIVES": tl.FIXED, "STAS": tl.STORE_SHARED,
}  # fmt: skip
_AWAITED = (tl.MBARRIER, tl.BULK_LOAD, tl.BULK_STORE)
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "F32x4": 16, "F32x2": 8}
_SHAPE = re.compile(r"^(\d+)x(\d+)x(\d+)$|^(\d{3,5})$")
_ELEMENT_RATE = {"TF32": 0.5, "S8": 2, "U8": 2, "E4M3": 2, "E5M2": 2, "S4": 4, "U4": 4}
_MMA = {
    "884": (8, 8, 4),
    "8x8x4": (8, 8, 4),
    "1688": (16, 8, 8),
    "16816": (16, 8, 16),
    "16832": (16, 8, 32),
    "16864": (16, 8, 64),
}


def rows(program: Program, timing: Timing, free: Sequence[int] = ()) -> np.ndarray:
    """A row for each instruction, and one more behind the last. Those in `free` take no time, unless they decide where
    to go on, or others wait for them: who arrives at a barrier, and what fills a buffer."""
    made = np.zeros((len(program.texts) + 1, tl.ROW // 4), np.int32)
    for n, (text, bits) in enumerate(zip(program.texts, program.uops[:, at.CONTROL].tolist())):
        made[n] = _row(text, bits, timing)
    made[:-1, tl.READS] = reads(program.texts, made[:-1, tl.UNIT].tolist())
    made[-1, [tl.WRITE_BAR, tl.READ_BAR]] = tl.NO_BAR
    for n in free:
        made[n, tl.FREE] = made[n, tl.UNIT] != tl.CONTROL and made[n, tl.KIND] not in _AWAITED
    return made


def sooner(made: np.ndarray, numbers: np.ndarray, times: float) -> None:
    """Of instructions, in place: they take so many times less. Of those of which less than a cycle is left only some
    are issued, and these hold the unit for the others, too."""
    kept = min(max(1, round(tl.WHOLE / times)), tl.MOST_KEPT - 1)
    if kept == tl.WHOLE:
        return
    share, rows = kept / tl.WHOLE, made[numbers]
    issued = np.minimum(1.0, np.maximum(rows[:, tl.STALL], 1) * share)
    issued[(rows[:, tl.UNIT] == tl.MEMORY) | (rows[:, tl.UNIT] == tl.CONTROL)] = 1.0
    rows[:, tl.KEPT] = kept
    rows[:, tl.INTERVAL] = np.round(rows[:, tl.INTERVAL] * share / issued)
    plain = rows[:, tl.UNIT] != tl.MEMORY  # those of memory are found by what they touched
    rows[plain, tl.LATENCY] = np.round(rows[plain, tl.LATENCY] * share)
    made[numbers] = rows


def _row(text: str, bits: int, timing: Timing) -> np.ndarray:
    row = np.zeros(tl.ROW // 4, np.int32)
    control = Control.of((bits & 0x1FFFFF) << 105)
    row[[tl.STALL, tl.WRITE_BAR, tl.READ_BAR, tl.WAITS]] = (
        control.stall,
        control.write,
        control.read,
        control.wait,
    )
    guard, _, rest = text.partition(" ") if text.startswith("@") else ("", "", text)
    opcode, _, operands = rest.partition(" ")
    root, *mods = opcode.split(".")
    row[tl.KIND] = tl.FIXED
    if guard == "@!PT":
        unit, interval, latency = tl.CONTROL, 1.0, 1
    elif root in _MEMORY:
        unit, interval, latency = _memory(row, root, mods, timing)
    elif root in _CONTROL:
        unit, interval, latency = _control(row, root, mods, operands)
    elif root in ("HMMA", "IMMA", "DMMA"):
        unit, interval, latency = tl.TENSOR, _mma_interval(root, mods, timing), timing.latency_tensor
    elif root in ("HGMMA", "IGMMA", "QGMMA"):
        unit, interval, latency = _group_product(row, mods, text, timing)
    else:
        unit, interval, latency = _arithmetic(root, mods, timing)
    row[tl.UNIT], row[tl.INTERVAL], row[tl.LATENCY] = unit, round(interval * tl.PARTS), latency
    return row


def _arithmetic(root: str, mods: list[str], timing: Timing) -> tuple[int, float, int]:
    if root in _XU and "64" not in mods:
        return tl.XU, timing.xu_interval, timing.latency_xu
    if root in _DOUBLE or (root in _XU and "64" in mods):
        return tl.DOUBLE, timing.double_interval, timing.latency_double
    if root in _FMA:
        return tl.FMA, timing.fma_interval, timing.latency_fma
    if root in _HALF:
        return tl.HALF, timing.half_interval, timing.latency_half
    if root.startswith("U") or root in ("R2UR", "VOTEU"):
        return tl.UNIFORM, timing.uniform_interval, timing.latency_uniform
    return tl.ALU, timing.alu_interval, timing.latency_fma


def bytes_of(text: str) -> int:
    """That an instruction moves for a lane, or for one that gives it an address; of bulk copies bytes are counted."""
    root, *mods = opcode_of(text).split(".")
    if root in ("LDSM", "STSM"):
        return 16
    return 1 if _MEMORY.get(root) in (tl.BULK_LOAD, tl.BULK_STORE) else _width(mods)


def _width(mods: list[str]) -> int:
    return next((_WIDTHS[m] for m in mods if m in _WIDTHS), 4)


def _memory(row: np.ndarray, root: str, mods: list[str], timing: Timing) -> tuple[int, float, int]:
    row[tl.KIND] = _MEMORY[root]
    row[tl.BYTES] = _width(mods)
    row[tl.HINT] = _hint(root, mods)
    if root in ("LDSM", "STSM"):
        row[tl.COUNT] = int(mods[-1]) if mods[-1] in ("2", "4") else 1
    if root == "LDGSTS":
        row[tl.SLOW] = "BYPASS" not in mods
    latency = timing.latency_l1 if row[tl.KIND] == tl.LOCAL else timing.latency_shared
    return tl.MEMORY, timing.address_interval, latency


def _hint(root: str, mods: list[str]) -> int:
    """`.EF` and `.EL` are eviction priorities. A load that sees what others of the chip wrote passes L1 by."""
    if "EF" in mods or "EL" in mods:
        return tl.GO_FIRST if "EF" in mods else tl.GO_LAST
    strong = "STRONG" in mods and ("GPU" in mods or "SYS" in mods)
    return tl.PAST_L1 if strong and root in ("LDG", "LD") else 0


def _control(row: np.ndarray, root: str, mods: list[str], operands: str) -> tuple[int, float, int]:
    kinds = {"LDGDEPBAR": tl.GROUP, "BAR": tl.BARRIER, "EXIT": tl.EXIT, "NANOSLEEP": tl.SLEEP}
    row[tl.KIND] = kinds.get(root, tl.FIXED)
    if root in ("DEPBAR", "WARPGROUP") and ("LE" in mods or root == "DEPBAR"):
        row[tl.KIND] = tl.WAIT_GROUP if root == "DEPBAR" else tl.WAIT_PRODUCT
        count = operands.split(",")[1:2]
        row[tl.COUNT] = int(count[0].strip(), 0) if count else 0
    return tl.CONTROL, 1.0, 40 if root == "NANOSLEEP" else 1


def _mma_interval(root: str, mods: list[str], timing: Timing) -> float:
    shape = next((_MMA[m] for m in mods if m in _MMA), None)
    if shape is None:
        raise ValueError(f"no shape is known of {root}.{'.'.join(mods)}")
    products = shape[0] * shape[1] * shape[2]
    if root == "DMMA":
        return products / (timing.tensor_fma_double / 4)
    rate = next((_ELEMENT_RATE[m] for m in mods if m in _ELEMENT_RATE), 2 if root == "IMMA" else 1)
    return products / (timing.tensor_fma * rate * timing.tensor_share / 4)


def _group_product(row: np.ndarray, mods: list[str], text: str, timing: Timing) -> tuple[int, float, int]:
    """A quarter of its products are each warp's. Small ones take longer than their share. m64nNk16 of f16, a product
    after another: 18.9, 20.7, 24.7, 32.8, 48.7, 65.0, 97.1 and 129.3 cycles for N = 8, 16, 32, 64, 96, 128, 192 and 256
    [FV], which these two lines meet within 2 %."""
    row[tl.KIND], row[tl.COUNT] = tl.PRODUCT, "gsb0" in text
    shape = next(m for m in mods if _SHAPE.match(m))
    m, n, k = (int(x) for x in shape.split("x"))
    rate = next((_ELEMENT_RATE[mod] for mod in mods if mod in _ELEMENT_RATE), 1)
    share = m * n * k / (timing.tensor_fma * rate)
    return tl.TENSOR, max(17 + 0.48 * share, 1.01 * share), timing.latency_product
