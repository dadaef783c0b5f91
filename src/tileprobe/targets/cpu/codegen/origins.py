"""Comments in the LLVM IR that say which source lines code came from: `; from "kernel.py:60,62"`.

They are for people who read it and are gone when it is compiled, so that the code is the same with and without.
"""

from __future__ import annotations

from llvmlite import ir
from llvmlite.ir.instructions import Comment
from xdsl.ir import Operation

from tileprobe.ir.structure import ScfStructure

_HOW = ScfStructure()


def origin(op: Operation) -> str | None:
    """As the scheduled IR writes it; a file name that is none of one line is not repeated."""
    lines = _HOW.lines(op)
    if lines is None or not lines.file.isprintable() or '"' in lines.file:
        return None
    return f'from "{lines.file}:{",".join(str(n) for n in sorted(lines.numbers))}"'


class Origins:
    """Notes where the code of each op begins, in the block that it begins in and in those that are made for it."""

    def __init__(self, function: ir.Function) -> None:
        self.function = function
        self.first: dict[ir.Block, str | None] = {}

    def begin(self, builder: ir.IRBuilder, said: str | None) -> int:
        """Before an op; what comes back is for `end`."""
        if said is not None and builder.block is not None and not builder.block.is_terminated:
            builder.comment(said)
        return len(self.function.blocks)

    def end(self, said: str | None, before: int) -> None:
        """Behind it: blocks that are new, and that no op inside of it has spoken for."""
        for block in self.function.blocks[before:]:
            self.first.setdefault(block, said)

    def write(self) -> None:
        """Into the blocks, once nobody writes into them any more."""
        for block, said in self.first.items():
            if said is not None:
                block.instructions.insert(0, Comment(block, said))
