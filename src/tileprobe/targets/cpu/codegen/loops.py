"""A counted loop in LLVM IR."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from tileprobe.targets.cpu.codegen.types import Value


def counted_loop(
    b: ir.IRBuilder, start: Value, stop: Value, step: int, body: Callable[[Value], None]
) -> None:
    """`for index in range(start, stop, step)`; a loop of one known iteration is just its body."""
    if isinstance(start, ir.Constant) and isinstance(stop, ir.Constant):
        first, last = int(start.constant), int(stop.constant)
        if last <= first:
            return
        if last - first <= step:
            body(start)
            return
    head = b.append_basic_block("loop")
    inside = b.append_basic_block("body")
    after = b.append_basic_block("next")
    before = b.block
    b.branch(head)
    b.position_at_end(head)
    index = b.phi(start.type)
    index.add_incoming(start, before)
    b.cbranch(b.icmp_signed("<", index, stop), inside, after)
    b.position_at_end(inside)
    body(index)
    index.add_incoming(b.add(index, ir.Constant(start.type, step)), b.block)
    b.branch(head)
    b.position_at_end(after)
