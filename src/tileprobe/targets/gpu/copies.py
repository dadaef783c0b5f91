"""AMD's copies from register to register: which of them records need, and how many loops have in all.

LLVM gives a record's line to copies of its neighbours, and other lines to copies that a record needs; so a copy belongs
to records if one of them reads what it wrote. All others are the kernel's own or the compiler's: values that are moved
out of the way, zeros for what a mask leaves out.
"""

from __future__ import annotations

import re

from tileprobe.targets.gpu.machine_code import Code, Instruction

_REGISTERS = re.compile(r"\b([sva])(?:(\d+)\b|\[(\d+):(\d+)\])")
_WRITES_NONE = (
    "buffer_store", "global_store", "scratch_store", "flat_store", "ds_write", "ds_store", "s_cmp", "s_bitcmp",
    "s_cbranch", "s_waitcnt",
)  # fmt: skip


def copies_in_loops(code: Code) -> int:
    return sum(op.copies and comes_back(code, n) for n, op in enumerate(code.instructions))


def copies_of_records(code: Code) -> int:
    """Those in loops that a record reads."""
    return sum(
        op.copies and comes_back(code, n) and _read_by_a_record(code, n)
        for n, op in enumerate(code.instructions)
    )


def comes_back(code: Code, start: int) -> bool:
    """Whether an instruction may be run again after itself."""
    seen: set[int] = set()
    left = [start] if code.following else []
    while left:
        new = set(code.following[left.pop()]) - seen
        seen |= new
        left += new
    return start in seen


def _read_by_a_record(code: Code, start: int) -> bool:
    """Whether a record's instruction may be the next to use what is written here."""
    wrote = _written(code.instructions[start])
    seen: set[int] = set()
    left = list(code.following[start])
    while left:
        n = left.pop()
        if n in seen:
            continue
        seen.add(n)
        op = code.instructions[n]
        if op.slot >= 0 and wrote & _read(op):
            return True
        if not wrote & _written(op):
            left += code.following[n]
    return False


def _halves(op: Instruction) -> list[tuple[str, str]]:
    """What an instruction writes and reads, as text; RDNA does two things by one."""
    found = []
    for half in op.operands.split(" :: "):
        text = half.split(" ", 1)[1] if half.startswith("v_dual") else half
        first, _, rest = text.partition(",")
        found.append(("", text) if op.opcode.startswith(_WRITES_NONE) else (first, rest))
    return found


def _written(op: Instruction) -> set[tuple[str, int]]:
    return {register for first, _ in _halves(op) for register in _registers(first)}


def _read(op: Instruction) -> set[tuple[str, int]]:
    return {register for _, rest in _halves(op) for register in _registers(rest)}


def _registers(text: str) -> set[tuple[str, int]]:
    found = set()
    for kind, one, first, last in _REGISTERS.findall(text):
        span = range(int(one), int(one) + 1) if one else range(int(first), int(last) + 1)
        found |= {(kind, n) for n in span}
    return found
