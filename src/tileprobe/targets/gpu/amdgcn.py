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
    """The kernel in a listing."""
    lines = text.splitlines()
    files = {}
    for line in lines:
        if found := _FILE.match(line):
            files[int(found[1])] = f"{found[2]}/{found[3]}" if found[3] else found[2]
    files = {number: name.split("//")[-1] for number, name in files.items()}
    instructions = tuple(_instructions(lines, files))
    spilled = 4 * _number(text, r"\.vgpr_spill_count:\s*(\d+)") + 4 * _number(
        text, r"\.sgpr_spill_count:\s*(\d+)"
    )
    return Code(
        instructions,
        _number(text, r"\.vgpr_count:\s*(\d+)"),
        spilled,
        0,
        {"occupancy_warps": 4 * _number(text, r"; Occupancy: (\d+)")},  # of the four SIMDs of a compute unit
    )


def _instructions(lines: list[str], files: dict[int, str]) -> list[Instruction]:
    file, line, block = "", 0, 0
    found: list[Instruction] = []
    for text in lines:
        if place := _LOC.match(text):
            file, line = _base(files.get(int(place[1]), "")), int(place[2])
        elif _LABEL.match(text):
            block += 1
            if text.startswith(".Lfunc_end"):
                break
        elif (read := _INSTRUCTION.match(text)) and read[1].startswith(_PREFIXES):
            found.append(Instruction(4 * len(found), read[1], read[2] or "", "", file, line, block))
            block += read[1].startswith(_BRANCHES)
    return found


def _base(name: str) -> str:
    """Our own files have no folder, whatever LLVM puts before them."""
    last = name.rsplit("/", 1)[-1]
    return last if last.startswith("tileprobe.") else name


def _number(text: str, pattern: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0
