"""Records that read their clocks one by one and store them together.

In comes a module with `record` ops; out goes, for each record whose clock can wait, the group it is stored with. On a
machine where a clock has to be waited for and several words fit into one store, that is fewer instructions a record.
"""

from __future__ import annotations

from itertools import groupby

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block

from tileprobe.ir.accessors import op_name
from tileprobe.ir.record import ClockOp, SlotOp, StoreOp, TripOp

Group = tuple[StoreOp, ...]
_LOOPS = ("scf.for", "scf.while")


def gathered(module: ModuleOp, most: int) -> dict[StoreOp, Group]:
    """The group of every record: neighbours in a block and in the same iteration, about so many."""
    blocks = [block for op in module.walk() for region in op.regions for block in region.blocks]
    groups = [group for block in blocks for run in _runs(block) for group in _cut(run, most)]
    return {record: group for group in groups for record in group}


def _runs(block: Block) -> list[Group]:
    """Records of a block that may be stored at the same place: those of one iteration. What lies between may have
    branches, in a loop also loops of its own, whose records are stored there; a clock that is held over it takes two
    scalar registers. Records outside of all loops are few, and are not held through the kernel's longest part."""
    inside = _within_a_loop(block)
    runs: list[list[StoreOp]] = [[]]
    for op in block.ops:
        if isinstance(op, StoreOp):
            if runs[-1] and _frame(runs[-1][-1]) != _frame(op):
                runs.append([])
            runs[-1].append(op)
        elif (op.name.startswith("record.") and not isinstance(op, (SlotOp, ClockOp, TripOp))) or (
            not inside and any(op_name(inner) in _LOOPS for inner in op.walk())
        ):
            runs.append([])
    return [tuple(run) for run in runs if run]


def _within_a_loop(block: Block) -> bool:
    op = block.parent_op()
    while op is not None and op_name(op) not in _LOOPS:
        op = op.parent_op()
    return op is not None


def _frame(record: StoreOp) -> object:
    """What records of the same iteration have in common."""
    slot = record.place.owner
    assert isinstance(slot, SlotOp)
    return slot.block, tuple(slot.indices)


def _cut(run: Group, most: int) -> list[Group]:
    """Groups of `most` slots, with all doses of each; a slot that is left over goes with the last of them, or it would
    be stored by itself."""
    slots = list(dict.fromkeys(_slot(record) for record in run))
    firsts = list(range(0, len(slots), most))
    if len(firsts) > 1 and len(slots) - firsts[-1] == 1:
        firsts.pop()
    group = {slot: sum(first <= n for first in firsts) for n, slot in enumerate(slots)}
    return [tuple(found) for _, found in groupby(run, key=lambda record: group[_slot(record)])]


def _slot(record: StoreOp) -> int:
    slot = record.place.owner
    assert isinstance(slot, SlotOp)
    return slot.slot.data
