"""`tileprobe.language.mark` and `value` in a kernel: from the op that carries them to probes.

In Triton's IR they are prints with a prefix of ours, because a print stays where it is written and takes a
value. Here they become `probe.mark` and `probe.value`, each a region of its own in the region around it.
"""

from __future__ import annotations

from xdsl.ir import Block, Operation

from tileprobe.ir.accessors import attr_value, op_name
from tileprobe.ir.locations import source_location
from tileprobe.ir.probe import MarkOp, ProbeOp, RegionOp, StartOp, StopOp, ValueOp

PREFIX = "tileprobe."


def is_user_probe(op: Operation) -> bool:
    """Whether an op of Triton's IR is a mark or a value of the user's."""
    return op_name(op) == "tt.print" and str(attr_value(op, "prefix") or "").strip().startswith(PREFIX)


def place_user_probes(kernel: Operation) -> None:
    """Replaces the marks and values of an instrumented kernel by probes."""
    entry = kernel.regions[0].blocks[0]
    declared = [op for op in entry.ops if isinstance(op, RegionOp)]
    count = len(declared)
    for op in [op for op in kernel.walk() if is_user_probe(op)]:
        assert op.parent is not None
        kind, _, name = str(attr_value(op, "prefix")).strip().removeprefix(PREFIX).rstrip(": ").partition(":")
        place = source_location(op)
        where = (place.file, place.line, place.line) if place else ("", 0, 0)
        region = RegionOp.of(count, name, kind, _around(op), *where)
        last = declared[-1] if declared else None
        entry.insert_op_after(region, last) if last else _first(entry, region)
        declared.append(region)
        made: ProbeOp = ValueOp(count, operands=[op.operands[0]]) if op.operands else MarkOp(count)
        count += 1
        op.parent.insert_op_before(made, op)
        op.detach()
        op.erase()


def _first(block: Block, op: Operation) -> None:
    block.insert_op_before(op, block.first_op) if block.first_op else block.add_op(op)


def _around(op: Operation | None) -> int | None:
    """The innermost region that is open before `op`."""
    while op is not None:
        closed = 0
        before = op.prev_op
        while before is not None:
            if isinstance(before, StopOp):
                closed += 1
            elif isinstance(before, StartOp):
                if not closed:
                    return before.region_id
                closed -= 1
            before = before.prev_op
        op = op.parent_op()
    return None


def drop_user_probes(kernel: Operation) -> None:
    """Without `instrument` in a pipeline marks stay behind; they are no part of the kernel's work."""
    for op in [op for op in kernel.walk() if is_user_probe(op)]:
        op.detach()
        op.erase()
