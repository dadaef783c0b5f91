"""Pipeline stages that Triton really made of each loop, read from the final TTGIR.

In comes the TTGIR of a kernel; out goes for each loop that fetches data its line and how many iterations are under way
at once. A pipelined loop has copies of its fetches before it, one set for each stage but the last, or its shared memory
has a buffer for each; whichever says more counts.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tileprobe.ir.accessors import op_name
from tileprobe.ir.locations import call_chain

_LOOPS = ("scf.for", "scf.while")
_FETCHES = (
    "ttg.async_copy_global_to_local",
    "ttng.async_tma_copy_global_to_local",
    "ttng.async_tma_gather",
    "amdg.buffer_load_to_local",
    "amdg.buffer_load",
    "tt.load",
)
_BUFFERS = re.compile(r"!ttg\.memdesc<(\d+)x")


def pipeline_stages(module: ModuleOp) -> list[dict[str, Any]]:
    """`{"file", "line", "stages"}` of each loop in which something is fetched, in order."""
    loops = [op for op in module.walk() if op_name(op) in _LOOPS]
    found = []
    for loop in loops:
        inside = Counter(_key(op) for op in _own(loop))
        if inside:
            before = Counter(_key(op) for op in _ahead(loop))
            copies = max(before[key] // count for key, count in inside.items())
            frames = call_chain(loop)
            file, line = (frames[0].file, frames[0].line) if frames else ("", 0)
            found.append({"file": file, "line": line, "stages": max(1 + copies, _buffers(loop))})
    return found


def _own(loop: Operation) -> list[Operation]:
    """What a loop fetches itself, not in loops inside of it."""
    return [
        op
        for region in loop.regions
        for block in region.blocks
        for first in block.ops
        for op in (first.walk() if op_name(first) not in _LOOPS else ())
        if op_name(op) in _FETCHES
    ]


def _ahead(loop: Operation) -> list[Operation]:
    """What is fetched in the same block before a loop, behind the loop before it."""
    found, op = [], loop.prev_op
    while op is not None and op_name(op) not in _LOOPS:
        found += [inner for inner in op.walk() if op_name(inner) in _FETCHES]
        op = op.prev_op
    return found


def _key(op: Operation) -> tuple[str, tuple[Any, ...]]:
    return op_name(op), tuple((frame.file, frame.line) for frame in call_chain(op))


def _buffers(loop: Operation) -> int:
    """The buffers that fetches of a loop go round in."""
    most = 1
    for op in _own(loop):
        for value in op.operands:
            owner = value.owner
            if isinstance(owner, Operation) and op_name(owner) == "ttg.memdesc_index":
                sized = _BUFFERS.match(str(owner.operands[0].type))
                most = max(most, int(sized[1]) if sized else 1)
    return most
