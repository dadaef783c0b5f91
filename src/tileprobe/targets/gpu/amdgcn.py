"""AMD's machine code, read from the assembly that LLVM writes: instructions with their source lines, and what the
kernel takes.

In comes the text of `amdgcn`; out goes `Code`, as of a cubin. Static: counts of instructions, as the assembler will
encode them.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tileprobe.targets.gpu.machine_code import Code, Instruction

_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"(.*?)"(?:\s+"(.*?)")?')
_LOC = re.compile(r"\s*\.loc\s+(\d+) (\d+)")
_INSTRUCTION = re.compile(r"\t([a-z]\w+)(?:\s+([^;]*?))?\s*(?:;.*)?$")
_LABEL = re.compile(r"\.?\w+:")
_BRANCHES = ("s_branch", "s_cbranch", "s_endpgm", "s_setpc", "s_swappc")
_PREFIXES = ("s_", "v_", "ds_", "global_", "flat_", "buffer_", "scratch_", "tbuffer_", "image_", "exp")


@lru_cache(maxsize=64)
def read_amdgcn(text: str) -> Code:
    """The kernel in a listing, with the functions that it calls and that were not put into it."""
    lines = text.splitlines()
    files = {}
    for line in lines:
        if found := _FILE.match(line):
            files[int(found[1])] = f"{found[2]}/{found[3]}" if found[3] else found[2]
    files = {number: name.split("//")[-1] for number, name in files.items()}
    instructions, labels = _instructions(lines, files)
    # Scalar registers are spilled to lanes of vector registers: that takes no memory.
    spilled = any(op.opcode.startswith("scratch_") for op in instructions)
    return Code(
        tuple(instructions),
        _number(text, r"\.vgpr_count:\s*(\d+)"),
        _number(text, r"\.private_segment_fixed_size:\s*(\d+)") if spilled else 0,
        0,
        {"occupancy_warps": 4 * _number(text, r"; Occupancy: (\d+)")},  # of the four SIMDs of a compute unit
        tuple(_following(n, op, labels, len(instructions)) for n, op in enumerate(instructions)),
    )


def _following(number: int, op: Instruction, labels: dict[str, int], count: int) -> tuple[int, ...]:
    """The instructions that may come next."""
    there = labels.get(op.operands.strip()) if op.opcode.startswith(("s_branch", "s_cbranch")) else None
    ends = op.opcode.startswith(("s_branch", "s_endpgm", "s_setpc"))
    after = () if ends or number + 1 >= count else (number + 1,)
    return after if there is None else (*after, there)


def _instructions(lines: list[str], files: dict[int, str]) -> tuple[list[Instruction], dict[str, int]]:
    """All instructions, and the number of the one behind each label."""
    file, line, block = "", 0, 0
    found: list[Instruction] = []
    labels: dict[str, int] = {}
    for text in lines:
        if place := _LOC.match(text):
            file, line = _base(files.get(int(place[1]), "")), int(place[2])
        elif label := _LABEL.match(text):
            block += 1
            labels[label[0][:-1]] = len(found)
        elif (read := _INSTRUCTION.match(text)) and read[1].startswith(_PREFIXES):
            found.append(
                Instruction(4 * len(found), _opcode(*read.groups()), read[2] or "", "", file, line, block)
            )
            block += read[1].startswith(_BRANCHES)
    return found, labels


def _opcode(name: str, operands: str | None) -> str:
    """The instruction's name; that of a buffer's load that goes to shared memory as the others' are called."""
    if name.startswith("buffer_load_") and (operands or "").endswith(" lds"):
        return name.replace("buffer_load_", "buffer_load_lds_")
    return name


def _base(name: str) -> str:
    """Our own files have no folder, whatever LLVM puts before them."""
    last = name.rsplit("/", 1)[-1]
    return last if last.startswith("tileprobe.") else name


def _number(text: str, pattern: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0
