"""Machine code as text: what nvdisasm prints, instruction by instruction, with the raw bits beside it.

In come the bytes of a cubin; out go `Instruction`s in order of their addresses. Text gives opcode, modifiers and
operands; the raw bits give what the text loses: floating-point immediates and the control codes.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass, field, replace

from tileprobe.targets.simgpu import lines
from tileprobe.targets.simgpu.errors import BadCubin

_PLACE = re.compile(r'\s*//## File "(.*?)", line (\d+)( inlined at)?')
_LIBRARY = os.path.join("triton", "language", "")  # Triton's own functions: who called them is meant
_FIRST = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s*/\* 0x([0-9a-f]{16}) \*/")
_SECOND = re.compile(r"\s*/\* 0x([0-9a-f]{16}) \*/")
_LABEL = re.compile(r"([.\w$]+):")
_SECTION = re.compile(r"\s*\.section\s+\.text\.([^,]+),")
BYTES = 16  # of an instruction
SECONDS = 120  # that nvdisasm may take
_NEAR = 12  # instructions within which a wait's loop is entered


@dataclass(frozen=True)
class Control:
    """What the compiler tells the scheduler, the same places on sm_80 and sm_90: cycles to wait behind this
    instruction, whether to yield, the barriers that are set when it has written and read (7: none), those to wait
    for, and operands to keep."""

    stall: int
    yields: int
    write: int
    read: int
    wait: int
    reuse: int

    @classmethod
    def of(cls, word: int) -> Control:
        bits = word >> 105
        return cls(bits & 15, bits >> 4 & 1, bits >> 5 & 7, bits >> 8 & 7, bits >> 11 & 63, bits >> 17 & 15)


@dataclass(frozen=True)
class Instruction:
    address: int
    guard: str  # "P0", "!UP1"; "" for always
    root: str
    mods: tuple[str, ...]
    operands: tuple[str, ...]
    word: int
    text: str
    file: str = ""
    line: int = 0

    @property
    def control(self) -> Control:
        return Control.of(self.word)

    @property
    def immediate(self) -> int:
        """The 32 bits in which immediates stand."""
        return self.word >> 32 & 0xFFFFFFFF

    @property
    def place(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}" if self.line else f"address {self.address:#x}"


@dataclass
class Listing:
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)  # addresses


def disassemble(cubin: bytes, kernel: str) -> Listing:
    """The instructions of a kernel."""
    from triton import knobs

    with tempfile.TemporaryDirectory(prefix="tileprobe-") as folder:
        path = os.path.join(folder, "kernel.cubin")
        with open(path, "wb") as file:
            file.write(cubin)
        command = [knobs.nvidia.nvdisasm.path, "-c", "-hex", "-gi", "-ndf", path]
        try:
            made = subprocess.run(  # names of a damaged cubin may be no text
                command, capture_output=True, text=True, errors="replace", check=False, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            raise BadCubin(f"nvdisasm did not end within {SECONDS} s on the cubin") from None
    if made.returncode:
        said = made.stderr.strip().splitlines()
        raise BadCubin(f"nvdisasm cannot read the cubin: {said[-1] if said else made.returncode}")
    found = parse(made.stdout, kernel)
    if not found.instructions:
        raise BadCubin(f"nvdisasm shows no instruction of {kernel}")
    return found


def parse(text: str, kernel: str) -> Listing:
    found, mine = Listing(), False
    file, line, inlined = "", 0, False
    pending: list[str] = []
    rows = iter(text.splitlines())
    for here in rows:
        if section := _SECTION.match(here):
            mine = section[1] == kernel
        elif not mine:
            continue
        elif place := _PLACE.match(here):
            if not inlined or _LIBRARY in file:  # else it is the caller of the place before
                file, line = lines.read(place[1]), int(place[2])
            inlined = place[3] is not None
        elif first := _FIRST.match(here):
            second = _SECOND.match(next(rows, ""))
            if second is None:
                raise BadCubin(f"nvdisasm's text ends within an instruction: {here.strip()}")
            word = int(first[3], 16) | int(second[1], 16) << 64
            address = int(first[1], 16)
            found.labels.update(dict.fromkeys(pending, address))
            pending = []
            found.instructions.append(_instruction(address, first[2], word, file, line))
        elif label := _LABEL.match(here):
            pending.append(label[1])
    end = found.instructions[-1].address + BYTES if found.instructions else 0
    found.labels.update(dict.fromkeys(pending, end))
    _place_waits(found)
    return found


def _place_waits(found: Listing) -> None:
    """Where a wait for a barrier tries for the first time ptxas writes down no line; its loop, to which the code goes
    from there, is the same instruction with one."""
    by_address = {op.address: op for op in found.instructions}
    for n, op in enumerate(found.instructions):
        if "TRYWAIT" not in op.mods:
            continue
        ways = [
            other
            for other in found.instructions[n + 1 : n + 1 + _NEAR]
            if other.root == "BRA" and other.guard
        ]
        for way in ways:
            again = (
                by_address.get(found.labels.get(way.operands[-1].strip("`()"), -1)) if way.operands else None
            )
            if again is not None and again.text == op.text:
                found.instructions[n] = replace(op, file=again.file, line=again.line)
                break


def _instruction(address: int, text: str, word: int, file: str, line: int) -> Instruction:
    guard, rest = "", text
    if text.startswith("@"):
        guard, rest = text[1:].split(None, 1)
    opcode, _, operands = rest.partition(" ")
    root, *mods = opcode.split(".")
    return Instruction(
        address, guard, root, tuple(mods), tuple(split(operands)), word, " ".join(text.split()), file, line
    )


def split(operands: str) -> list[str]:
    """Operands between commas, where those inside of brackets do not count."""
    found, depth, current = [], 0, ""
    for character in operands:
        depth += (character in "[({") - (character in "])}")
        if character == "," and depth == 0:
            found.append(current.strip())
            current = ""
        else:
            current += character
    if current.strip():
        found.append(current.strip())
    return found
