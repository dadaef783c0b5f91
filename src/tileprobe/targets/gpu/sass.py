"""NVIDIA's machine code, read: the instructions of a cubin with their source lines, and what the kernel takes.

In come the bytes of a cubin and the PTX it was made from; the tools that Triton brings along (nvdisasm, cuobjdump) take
it apart. Out goes `Code`: instructions in order, registers, local memory. Lines go by way of the PTX: the
cubin's own table of source lines loses the file where two of them alternate.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from functools import lru_cache

from tileprobe.errors import TileProbeError
from tileprobe.targets.gpu.machine_code import OUR_FILES, Code, Instruction

_LINE = re.compile(r'\s*//## File ".nv_debug_ptx_txt", line (\d+)')
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"(.*?)"')
_LOC = re.compile(r"\s*\.loc\s+(\d+) (\d+)")
_INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
_LABEL = re.compile(r"\s*(\.L\w+):")
_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
_BEGIN, _END = "// begin inline asm", "// end inline asm"
_BRANCHES = ("BRA", "BRX", "JMP", "EXIT", "RET", "CALL", "BSYNC", "WARPSYNC.COLLECTIVE")


@lru_cache(maxsize=64)
def read_cubin(cubin: bytes, ptx: str) -> Code:
    """The kernel in a cubin."""
    with tempfile.TemporaryDirectory(prefix="tileprobe-") as folder:
        path = os.path.join(folder, "kernel.cubin")
        with open(path, "wb") as file:
            file.write(cubin)
        listing = _run("nvdisasm", "-c", "-gp", path)
        usage = _USAGE.search(_run("cuobjdump", "-res-usage", path))
    if usage is None:
        raise TileProbeError("cuobjdump did not say how many registers the kernel takes")
    registers, stack, shared, _ = (int(number) for number in usage.groups())
    instructions = _instructions(listing, _places(ptx))
    spilled = any(op.opcode.startswith(("STL", "LDL")) for op in instructions)
    return Code(tuple(instructions), registers, stack if spilled else 0, shared)


def _places(ptx: str) -> list[tuple[str, int]]:
    """For each line of PTX the file and line it comes from."""
    lines = ptx.splitlines()
    files = {int(found[1]): found[2] for line in lines if (found := _FILE.match(line))}
    here = user = last = ("", 0)
    placed = inside = (
        False  # LLVM counts lines on within a piece of assembly: its first place is that of all of it
    )
    places = []
    for line in lines:
        if _BEGIN in line:
            inside, placed, here = True, False, last  # LLVM names a place once where two pieces have the same
        elif (found := _LOC.match(line)) and not (inside and placed):
            here = last = files.get(int(found[1]), ""), int(found[2])
            user = user if here[0] in OUR_FILES else here
            placed = True
        places.append(here)
        if _END in line:  # what follows without a place of its own is not part of a record
            here, inside = user, False
    return places


def _instructions(listing: str, places: list[tuple[str, int]]) -> list[Instruction]:
    file, line, block = "", 0, 0
    found: list[Instruction] = []
    for text in listing.splitlines():
        if place := _LINE.match(text):
            at = int(place[1]) - 1
            file, line = places[at] if at < len(places) else ("", 0)
        elif _LABEL.match(text):
            block += 1
        elif read := _INSTRUCTION.match(text):
            found.append(Instruction(int(read[1], 16), read[3], read[4], read[2] or "", file, line, block))
            block += read[3].startswith(_BRANCHES)
    return found


def _run(tool: str, *arguments: str) -> str:
    from triton import knobs

    path = getattr(knobs.nvidia, tool).path
    made = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    if made.returncode:
        raise TileProbeError(f"{tool} cannot read the kernel: {made.stderr.strip() or made.returncode}")
    return made.stdout
