"""Which banks of registers an instruction reads: two a sub-partition, of even and odd numbers, a register a cycle each.

In come a kernel's instructions; out goes for each of fixed latency how many registers it reads from either bank. One
that the instruction before it kept in the same place (`.reuse`) is not read again. Facts: Huerta et al., Analyzing
Modern NVIDIA GPU cores (MICRO 2025).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tileprobe.targets.simgpu.engine import timed_layout as tl

_REGISTER = re.compile(r"^[-~|]*R(\d+)\|?(\.\w+)*$")
_UNITS = (tl.FMA, tl.ALU, tl.HALF)


def reads(texts: Sequence[str], units: Sequence[int]) -> list[int]:
    """For each instruction, as `tl.READS` has it."""
    made, kept = [], {}
    for text, unit in zip(texts, units):
        sources = _sources(text)
        counts = [0, 0]
        if unit in _UNITS:
            for place, (register, _) in sources.items():
                if kept.get(place) != register:
                    counts[register & 1] += 1
        made.append(counts[0] | counts[1] << tl.ODD_READS)
        kept = {place: register for place, (register, stays) in sources.items() if stays}
    return made


def _sources(text: str) -> dict[int, tuple[int, bool]]:
    """Registers by their places among the operands, and whether each is kept."""
    operands = text.split(" ", 2 if text.startswith("@") else 1)[-1].split(",")
    found = {}
    for place, operand in enumerate(operands[1:]):
        name = operand.strip()
        if match := _REGISTER.match(name):
            found[place] = int(match[1]), ".reuse" in name
    return found
